"""What comes in over gRPC: one file a service. Each method reads its request, asks a handler, and shows the answer."""
