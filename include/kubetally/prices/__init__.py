"""What a node costs per hour: lookup key, provider rules, price sheet, price book.

`key` says what to look up, `azure` and `gcp` match it in recorded pages, `sheet` reads negotiated
prices, `resolve` puts them in order of precedence; all of these are pure. `fetch` opens HTTP and
`book` the warehouse.
"""
