"""From shapes to signatures to band buckets.

In the order of the flow: ``weights`` (counts to whole-number weights), the families ``minhash`` (the default, and its
weighted form), ``hyperplanes``, ``bits`` and ``projections``, ``family`` (what a family is, and which there are),
``bands`` (signatures to bucket keys, and the S-curve). Beside the flow: ``distances`` (what the families approximate),
``amplification`` (AND and OR, nested), ``tuning`` (choosing bands and rows), ``sampling`` (the same on a sample of real
pages), ``plotting`` (the S-curve drawn).
"""
