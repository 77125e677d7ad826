//! What people see through a sandbox's gateway, in a real browser: editor, desktop, terminal, a
//! development server that reloads by itself, and pages that must not get in.

mod chromium;
mod elsewhere;
mod shown;

use wire::link::Boot;

use crate::based::Based;
use crate::workbench::Workbench;
use chromium::{Chromium, Held};
use elsewhere::Elsewhere;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_edited_in_the_editor() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let Some(based) = Based::with_parts() else {
        return;
    };
    let bench = Workbench::new(&based, Boot::default()).await;
    bench.has("editor").await;
    bench.sh("echo before > ~/workspace/layers.txt").await;
    bench
        .until("curl -sf -o /dev/null http://127.0.0.1:8765/healthz")
        .await;

    let page = chromium.page().await;
    let workspace = bench.let_in("/vscode/?folder=/home/user/workspace");
    assert_eq!(page.open(&workspace).await, 200);
    // The list of files comes over the editor's socket.
    let row = ".explorer-folders-view .monaco-list-row[aria-label^='layers.txt']";
    page.until(
        "the workspace is listed",
        &format!("document.querySelector({row:?}) !== null"),
    )
    .await;
    page.click(row).await;
    let lines = ".editor-instance .view-lines";
    page.until(
        "the file is shown",
        &format!("document.querySelector({lines:?})?.textContent.includes('before') === true"),
    )
    .await;
    page.click(lines).await;
    page.type_text("after").await;
    page.press("s", 83, Held::Control).await;
    bench.until("grep -q after ~/workspace/layers.txt").await;
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_desktop_is_shown_and_can_be_clicked() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let Some(based) = Based::with_parts() else {
        return;
    };
    let bench = Workbench::new(&based, Boot::default()).await;
    bench.has("desktop").await;
    bench
        .until(
            "curl -sf -o /dev/null http://127.0.0.1:6080/vnc.html && \
             (exec 3<>/dev/tcp/127.0.0.1/5900) 2>/dev/null",
        )
        .await;

    let page = chromium.page().await;
    assert_eq!(page.open(&bench.let_in("/vnc/")).await, 200);
    page.until(
        "the screen has its size",
        "document.querySelector('canvas')?.width === 1920 && document.querySelector('canvas').height === 1080",
    )
    .await;
    // The bar at the lower edge comes from the window manager.
    page.until(
        "the bar is drawn",
        &format!("{COLOURS}(0, 1040, 1920, 40) > 1"),
    )
    .await;
    let middle = format!("{COLOURS}(960, 540, 100, 100)");
    assert_eq!(page.eval(&middle).await, 1, "an empty desktop");
    page.click_with("right", "canvas").await;
    page.until("its menu is drawn", &format!("{middle} > 1"))
        .await;
    bench.end().await;
}

/// How many there are in a part of the screen; what is blank has one.
const COLOURS: &str = "((...part) => { \
    const screen = document.querySelector('canvas').getContext('2d'); \
    return new Set(new Uint32Array(screen.getImageData(...part).data.buffer)).size; })";

/// By the exposed port, and by a tunnel.
#[tokio::test(flavor = "multi_thread")]
async fn a_development_server_replaces_what_changed_without_loading_the_page_again() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let Some(based) = Based::slim() else { return };
    let bench = Workbench::new(&based, Boot::default()).await;
    bench.has("preview").await;
    bench.sh(APPLICATION).await;
    bench
        .until("curl -sf -o /dev/null http://localhost:5173/")
        .await;
    bench.sh("nacre services expose 5173").await;
    bench
        .until("curl -sf http://127.0.0.1:20000/ | grep -q vite")
        .await;

    let page = chromium.page().await;
    assert_eq!(page.open(&bench.let_in("/preview/")).await, 200);
    replaces(&bench, &page, "one", "two").await;

    bench.sh("nacre tunnel add app 5173").await;
    assert_eq!(page.open(&bench.at("/t/app/")).await, 200);
    replaces(&bench, &page, "two", "three").await;
    bench.end().await;
}

/// An application of one page whose text is a module that can be replaced.
const APPLICATION: &str = r#"
    set -e
    cd ~/workspace
    npm init -y >/dev/null
    npm install --silent --no-audit --no-fund --save-exact vite@7.3.8
    cat > index.html <<'HTML'
<!doctype html><title>app</title><h1 id="text"></h1><script type="module" src="/src/main.js"></script>
HTML
    mkdir -p src
    echo 'export const text = "one";' > src/text.js
    cat > src/main.js <<'JS'
import { text } from './text.js';
const show = (text) => { document.getElementById('text').textContent = text; };
show(text);
import.meta.hot.accept('./text.js', (changed) => show(changed.text));
JS
    nacre services start --name app --command 'npx vite' >/dev/null
"#;

fn says_of_text(text: &str) -> String {
    format!("document.getElementById('text')?.textContent === {text:?}")
}

async fn replaces(bench: &Workbench<'_>, page: &chromium::Page, before: &str, after: &str) {
    page.until("the application runs", &says_of_text(before))
        .await;
    // Gone, if the page were loaded again.
    page.eval("window.mark = 'still here'").await;
    // What changes before its socket is open, it never hears of.
    page.until_told("connected").await;
    bench
        .sh(&format!(
            "echo 'export const text = \"{after}\";' > ~/workspace/src/text.js"
        ))
        .await;
    page.until("the change is shown", &says_of_text(after))
        .await;
    assert_eq!(page.eval("window.mark").await, "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_typed_in_and_shows_its_screen_again() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let Some(based) = Based::slim() else { return };
    let bench = Workbench::new(&based, Boot::default()).await;
    bench.has("workspace").await;

    let (_open, address) = bench.opened("/ttyd/");
    let (plain, _) = address.split_once('?').unwrap();
    let page = chromium.page().await;
    assert_eq!(page.open(&address).await, 200);
    let shows = |text: &str| {
        format!("document.querySelector('.xterm-rows')?.textContent.includes({text:?}) === true")
    };
    page.until("there is a prompt", &shows("$")).await;
    page.type_text("cd /tmp; echo $((6 * 7))-$(id -un)").await;
    page.press_enter().await;
    page.until("what was typed is answered", &shows("42-user"))
        .await;
    page.until(
        "it is as large as the window",
        "document.querySelectorAll('.xterm-rows > div').length > 30",
    )
    .await;

    // The shell is the same, and so is what it showed.
    assert_eq!(page.open(plain).await, 200);
    page.until("the screen is shown again", &shows("42-user"))
        .await;
    page.type_text("echo in-$PWD").await;
    page.press_enter().await;
    page.until("the shell goes on", &shows("in-/tmp")).await;
    page.type_text("exit").await;
    page.press_enter().await;
    page.until(
        "its end is said",
        "!document.getElementById('notice').hidden",
    )
    .await;
    page.press_enter().await;
    page.until(
        "there is a new one",
        "document.getElementById('notice').hidden",
    )
    .await;

    let (_, host_and_path) = plain.split_once("//").unwrap();
    let elsewhere: Vec<String> = page
        .requests()
        .into_iter()
        .filter(|url| !url.contains(host_and_path))
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    bench.end().await;
}

/// What an application in the sandbox gets to see is written down by one.
#[tokio::test(flavor = "multi_thread")]
async fn only_those_who_were_let_in_get_in_and_what_lets_them_in_stays_outside() {
    let Some(chromium) = Chromium::start() else {
        return;
    };
    let Some(based) = Based::slim() else { return };
    let (friend, stranger) = (Elsewhere::serve().await, Elsewhere::serve().await);
    let boot = Boot {
        origins: vec![friend.origin()],
        ..Boot::default()
    };
    let bench = Workbench::new(&based, boot).await;
    bench.has("workspace").await;
    bench.sh(LISTENER).await;
    bench
        .until("curl -sf -o /dev/null http://127.0.0.1:3000/")
        .await;
    bench.sh("nacre tunnel add app 3000").await;

    let page = chromium.page().await;
    for path in [
        "/",
        "/vscode/",
        "/vnc/",
        "/ttyd/",
        "/opencode/",
        "/preview/",
        "/t/app/",
    ] {
        assert_eq!(page.open(&bench.at(path)).await, 401, "{path}");
    }
    assert_eq!(page.open(&bench.at("/health")).await, 200);

    let once = bench.let_in("/t/app/?mine=1");
    assert_eq!(page.open(&once).await, 200);
    assert_eq!(page.eval("location.search").await, "?mine=1");
    assert_eq!(page.eval("document.cookie").await, "");
    assert_eq!(
        page.eval("fetch('x', {method: 'POST'}).then(r => r.status)")
            .await,
        200
    );
    let fresh = Chromium::start().unwrap();
    let other = fresh.page().await;
    assert_eq!(other.open(&once).await, 401, "a code lets in once");

    // Pages elsewhere: one of ours, and one that has no business here.
    let tried = |path: &str| {
        let (to, socket) = (bench.at(path), bench.at(path).replace("http:", "ws:"));
        format!(
            "Promise.all([\
               fetch({to:?}, {{method: 'POST', mode: 'no-cors', credentials: 'include'}}).then(() => 0, () => 0),\
               new Promise(done => {{ const s = new WebSocket({socket:?}); s.onopen = () => done(true); s.onerror = () => done(false); }}),\
             ]).then(([_, opened]) => opened)"
        )
    };
    assert_eq!(page.open(&stranger.origin()).await, 200);
    assert_eq!(page.eval(&tried("/t/app/stranger")).await, false);
    assert_eq!(page.eval(&tried("/ttyd/ws")).await, false);
    assert_eq!(page.open(&friend.origin()).await, 200);
    assert_eq!(
        page.eval(&tried("/t/app/friend")).await,
        false,
        "it knows no sockets"
    );
    assert_eq!(page.eval(&tried("/ttyd/ws")).await, true);

    let seen = bench.sh("cat /tmp/seen").await;
    assert!(seen.contains("POST /friend"), "{seen}");
    assert!(!seen.contains("/stranger"), "{seen}");
    for ours in ["gateway_session", "nacre_code", "eyJ"] {
        let leaks = seen.lines().any(|line| line.contains(ours));
        assert!(!leaks, "{ours} is in {seen}");
    }
    bench.end().await;
}

/// Writes down the request line and the credentials of whoever comes.
const LISTENER: &str = r"
    cat > /tmp/listener.py <<'PYTHON'
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get('content-length') or 0))
        with open('/tmp/seen', 'a') as seen:
            print(self.requestline, self.headers.get_all('cookie'), self.headers.get_all('authorization'),
                self.headers.get_all('referer'), file=seen)
        self.send_response(200)
        self.send_header('content-type', 'text/html')
        self.send_header('content-length', '2')
        self.end_headers()
        self.wfile.write(b'hi')
    do_POST = do_GET
http.server.ThreadingHTTPServer(('127.0.0.1', 3000), Handler).serve_forever()
PYTHON
    nacre services start --name listener --command 'python3 /tmp/listener.py' >/dev/null
";
