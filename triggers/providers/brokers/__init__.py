"""What providers of several brokers share: URLs, connections, decoding, trust in delivery counts."""
