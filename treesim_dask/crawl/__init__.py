"""From crawl inputs to batches of HTML pages.

In the order of the flow: ``inputs`` (what the user named to sources), ``listing`` (files below a place), ``web``
(HTTP requests), ``streams`` (one file as one streaming request that survives a broken connection), ``gunzip``
(whole gzip members by FastWARC), ``members`` (gzip members and zstd frames to decoded bytes), ``usual`` (WARC records
as crawlers write them), ``archives`` (WARC and ARC to HTTP responses; the only module that knows warcio), ``bodies``
(transfer and content encodings undone), ``charset`` (to bytes an HTML parser reads), ``sniffing`` (what the first
bytes say), ``reasons`` (why something was left out), ``pages`` (responses to batches of pages), ``excerpts`` (a little
of an archive, for plans) and ``fetch`` (one page from the live web).
"""
