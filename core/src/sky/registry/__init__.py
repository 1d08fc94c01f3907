"""Plugins: how they are found (`index`), loaded (`plugins`), watched (`observers`) and shown (`report`)."""
