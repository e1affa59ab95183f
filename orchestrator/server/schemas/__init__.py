"""The schemas of what the API accepts and returns; the daemon renders them and the client reads them."""
