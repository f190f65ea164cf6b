"""From a page to its matches.

In the order of the flow: ``page`` (what is searched for), ``metrics`` (exact similarity of branch vectors),
``search`` (buckets to candidates to matches), ``evaluate`` (how good the answers are).
"""
