-- Snapshots that somebody asked for are kept until somebody gives them up; of the others a session
-- keeps its last few. Of those that were there before nobody knows, so they are kept.
ALTER TABLE snapshots ADD COLUMN wanted BIGINT NOT NULL DEFAULT 0 CHECK (wanted IN (0, 1));
UPDATE snapshots SET wanted = 1;

-- `removed_at` is when nobody could begin from it any more, `gone_at` when its provider had given it
-- up.
ALTER TABLE snapshots ADD COLUMN gone_at BIGINT;
UPDATE snapshots SET gone_at = removed_at;

CREATE INDEX snapshots_given_up ON snapshots (removed_at)
    WHERE removed_at IS NOT NULL AND gone_at IS NULL;
CREATE INDEX sessions_snapshot ON sessions (snapshot_id) WHERE snapshot_id IS NOT NULL;
