"""From shapes to signatures to band buckets.

In the order of the flow: ``mixing`` (the integer hash everything is made of), ``minhash`` (the default family),
``family`` (what a family is, and which there are), ``bands`` (signatures to bucket keys, and the S-curve).
"""
