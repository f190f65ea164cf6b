"""From a page to the counts of its binary branches, or of another feature.

In the order of the flow: ``cost`` (what the parser cannot be given), ``vocabulary`` (tag names to fixed ids), ``tree``
(HTML to tags and depths, spliced), ``classes`` (the class names of the elements, where asked for), ``branches`` (tags
and depths to the shape of a page), ``features`` (what else can be counted).

Repeated records: ``collapse`` (trees without repetitions), ``similar`` (siblings alike) and ``records`` (regions of
them); ``suffix_tree`` and ``repeats`` are the report's way, kept as the reference.
"""
