"""Replication of one partition as state and decisions: in-sync replicas, high watermark, leader epochs. Pure."""
