"""What pages share: controls, the address, views of a record."""
