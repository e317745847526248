"""Interfaces of other systems, a module each: imported on request, their libraries only where used."""
