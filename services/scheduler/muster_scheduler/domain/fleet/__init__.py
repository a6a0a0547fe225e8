"""What there is: clusters, nodes and devices, the columns of what is free, and which nodes may be used."""
