import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { show, theme } from "./theme";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/page.css";
import "./styles/conversation.css";
import "./styles/session.css";
import "./styles/text.css";
import "./styles/panels.css";
import "./styles/places.css";

show(theme.get());
const root = document.getElementById("root");
if (root === null) throw new Error("the page has no place for the application");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
