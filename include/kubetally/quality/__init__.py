"""The gates between the stages: what must hold of staged data before the next stage may read it.

`gate` runs one gate and writes its verdicts; `checks` are SQL files whose rows are the offences
(money lives there, as `numeric`); `suites` are Great Expectations suites (shape, nulls, ranges,
uniqueness); `notify` tells people.
"""
