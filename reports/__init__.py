"""Reports: run what a story still misses, then set it on pages. Rendering samples nothing."""
