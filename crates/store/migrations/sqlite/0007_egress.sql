-- What sandboxes asked for and did not get is read by itself.
CREATE INDEX events_blocked ON events (session_id, seq) WHERE kind = 'egress_blocked';
