"""Messages between server and devices: topics and the wire format."""
