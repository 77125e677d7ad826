import { WhenAwake } from "./asleep";
import { Framed } from "./framed";
import { IfInstalled } from "./part";

export default function EditorPanel() {
  return (
    <WhenAwake what="The editor">
      <IfInstalled phase="editor">
        <Framed target="editor" title="Editor" />
      </IfInstalled>
    </WhenAwake>
  );
}
