"""What a node costs per hour: lookup key, provider rules, price sheet, price book.

`key` says what to look up; `azure`, `gcp` (with `gcp_machines`) and `aws` (with `json_stream`) match it
in recorded pages; `sheet` (with `entry`, `opencost`, `written`) reads custom prices, `fees` what a cluster
costs beside its nodes, `currency` exchange rates, `rate_history` values by month; `resolve` puts prices
in order of precedence; `explain` says why. All of these are pure. `fetch` and `fetch_aws` open HTTP,
`book`, `kept_files`, `in_use` and `command` the warehouse.
"""
