"""From a page to the counts of its binary branches.

In the order of the flow: ``vocabulary`` (tag names to fixed ids), ``tree`` (HTML to tags and depths, spliced),
``branches`` (tags and depths to the shape of a page).
"""
