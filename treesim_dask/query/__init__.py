"""From a page to its matches.

In the order of the flow: ``page`` (what is searched for), ``options`` (how), ``metrics`` (exact similarity of branch
vectors), ``selection`` (shapes to the pages that may be matches),
``search`` (buckets to candidates to matches), ``evaluate`` (how good the answers are).
"""
