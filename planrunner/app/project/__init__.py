"""Use cases on the project and its installation: settings, credentials, plugins, doctor."""
