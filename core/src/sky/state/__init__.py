"""What Sky remembers: a cache of clusters and a log of intents. The truth is what carries our tags."""
