// What people do to a session as a whole: from its page, from the list, from the palette.

import type { v1 } from "@nacre/client";
import { client } from "../api";
import { navigate } from "../router";
import { isSure } from "../ui/confirm";
import { complain, tell, unlessUndone } from "../ui/toasts";

/** As much of a session as is needed to speak of it. */
export interface Named {
  id: string;
  title: string;
}

type Took = (record: v1.SessionWithReceipt) => void;
const NOBODY: Took = () => {};

export function pause({ id }: Named, took: Took = NOBODY): Promise<void> {
  return client.pause(id).then(took, complain);
}

export function resume({ id }: Named, took: Took = NOBODY): Promise<void> {
  return client.resume(id).then(took, complain);
}

/** For good, so it is asked first. */
export async function stop({ id, title }: Named, took: Took = NOBODY): Promise<void> {
  const sure = await isSure({
    title: `Stop “${title}” for good?`,
    text: "It cannot be resumed: its sandbox ends, with all that runs in it. Its files are kept as a snapshot, the conversation stays, and a fork can go on from there. To have it rest, pause it instead.",
    deed: "Stop for good",
  });
  if (sure) await client.stop(id).then(took, complain);
}

export function takeSnapshot({ id }: Named): Promise<void> {
  return client.createSnapshot(id).then(() => {
    tell("A snapshot is taken", { label: "Show", act: () => navigate(`/sessions/${id}/snapshots`) });
  }, complain);
}

/** Who forks here goes on there at once, so it is started, too. */
export function fork({ id, title }: Named): Promise<void> {
  return client.fork(id, { title: `${title} (fork)` }).then((made) => {
    navigate(`/sessions/${made.id}`);
    void resume(made);
  }, complain);
}

export function archive({ id, title }: Named): Promise<void> {
  return client.changeSession(id, { archived: true }).then(() => {
    navigate("/");
    tell(`Archived “${title}”`, {
      label: "Undo",
      act: () => void client.changeSession(id, { archived: false }).catch(complain),
    });
  }, complain);
}

/** When nobody wants it back. */
export function remove({ id, title }: Named): void {
  navigate("/");
  unlessUndone(
    `Deleting “${title}”`,
    () => void client.deleteSession(id).catch(complain),
    () => navigate(`/sessions/${id}`),
  );
}
