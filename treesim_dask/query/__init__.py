"""From a page to its matches.

In the order of the flow: ``page`` (what is searched for), ``options`` (how), ``metrics`` (exact similarity of branch
vectors), ``rerank`` (hits to candidates with their similarity), ``selection`` (shapes to the pages that may be
matches), ``matches`` (these by column, merged over segments), ``search`` (all of it for a batch of queries),
``evaluate`` (how good the answers are).
"""
