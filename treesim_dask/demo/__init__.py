"""A seeded generator of synthetic websites, written as WARC files in Common Crawl's layout.

In the order of the flow: ``words`` (the vocabulary), ``tables`` (columns of ready-made texts), ``templates`` (the
template language), ``themes`` (the designs in ``themes/*.html``), ``sites``, ``pages``, ``responses`` (pages and what
a crawler meets besides them), ``warc`` (WARC records), ``crawl`` (files and labels).

25 themes of 2 templates each are spread over 1,512 sites in 5 languages and 7 charsets. A page has about 13 KB and 300
elements in the median; see ``write_demo_crawl`` for a whole crawl and ``demo_page`` for a single page.
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
