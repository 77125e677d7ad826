import { WhenAwake } from "./asleep";
import { Framed } from "./framed";
import { IfInstalled } from "./part";

export default function DesktopPanel() {
  return (
    <WhenAwake what="The desktop">
      <IfInstalled phase="desktop">
        <Framed target="desktop" title="Desktop" />
      </IfInstalled>
    </WhenAwake>
  );
}
