"""A seeded generator of synthetic websites, written as WARC files in Common Crawl's layout.

In the order of the flow: ``words`` (the vocabulary), ``tables`` (columns of ready-made texts), ``templates`` (the
template language), ``themes`` (the designs in ``themes/*.html``), ``sites``, ``pages``, ``responses`` (pages and what
a crawler meets besides them), ``warc`` (WARC records), ``crawl`` (files and labels).

25 themes of 2 templates each are spread over 1,512 sites in 5 languages and 7 charsets, 30 % of them with untidy
markup. A page has 12.5 KB and 320 elements in the median (5 to 33 KB and 120 to 860 elements from the 5th to the 95th
percentile) and takes 5 KB of a WARC file; one core makes about 1,700 a second. Of 2,000 pages 98 % have a shape of
their own, of 20,000 pages 92 %.
"""

from treesim_dask.demo.crawl import DemoCrawl, DemoFile, write_demo_crawl, write_demo_labels, write_demo_warc
from treesim_dask.demo.pages import DemoPage, demo_page
from treesim_dask.demo.themes import template_labels

__all__ = [
    "DemoCrawl",
    "DemoFile",
    "DemoPage",
    "demo_page",
    "template_labels",
    "write_demo_crawl",
    "write_demo_labels",
    "write_demo_warc",
]
