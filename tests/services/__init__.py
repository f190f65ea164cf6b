"""Real services that tests start and stop themselves: an object store, a batch system, network hosts, web servers."""
