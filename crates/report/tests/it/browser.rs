//! A headless Chromium, controlled over two pipes by its DevTools protocol: JSON messages that end
//! in a zero byte.
//!
//! The browser reads commands on descriptor 3 and answers on 4. Two named pipes and a shell put
//! them there, so no unsafe code between `fork` and `exec` is needed.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The names of the browser on different systems.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// On a loaded machine a browser starts slowly; nothing else takes long.
const PATIENCE: Duration = Duration::from_secs(120);

/// `$ATOLL_BROWSER`, or the first known name on the path.
pub fn find() -> Option<PathBuf> {
    let named = std::env::var_os("ATOLL_BROWSER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = || std::env::split_paths(&path).flat_map(|dir| NAMES.iter().map(move |name| dir.join(name)));
    named.or_else(|| all().find(|file| file.is_file()))
}

pub struct Browser {
    child: Child,
    orders: File,
    answers: Receiver<Value>,
    last: u64,
}

impl Browser {
    /// Starts `program` with a profile of its own below `home`.
    pub fn start(program: &Path, home: &Path) -> Browser {
        let (orders, answers) = (home.join("orders"), home.join("answers"));
        let made = Command::new("mkfifo").args([&orders, &answers]).status().expect("mkfifo");
        assert!(made.success(), "named pipes in {}", home.display());
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$ORDERS\" 4>\"$ANSWERS\""])
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--hide-scrollbars", "--disable-extensions", "--disable-background-networking"])
            .args(["--remote-debugging-pipe", &format!("--user-data-dir={}", home.join("profile").display())])
            .env("ORDERS", &orders)
            .env("ANSWERS", &answers)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        // Each open waits for the other side, in the shell's order.
        let orders = OpenOptions::new().write(true).open(orders).expect("the browser reads orders");
        let answers = File::open(answers).expect("the browser answers");
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(answers);
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                let parsed = serde_json::from_slice(&message).expect("JSON from the browser");
                if send.send(parsed).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Browser { child, orders, answers: receive, last: 0 }
    }

    fn send(&mut self, session: Option<&str>, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let mut order = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = session {
            order["sessionId"] = session.into();
        }
        self.orders.write_all(&[order.to_string().as_bytes(), b"\0"].concat()).expect("the browser is there");
        self.last
    }

    /// A new, empty page.
    pub fn page(&mut self) -> Page<'_> {
        let mut page = Page { browser: self, session: None, events: Vec::new() };
        let target = page.order("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            page.order("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        page.session = attached["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.order(&format!("{domain}.enable"), json!({}));
        }
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.send(None, "Browser.close", &json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The device that a page is viewed on.
#[derive(Clone, Copy)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
    pub mobile: bool,
    /// The preference of the reader's system: `light` or `dark`.
    pub scheme: &'static str,
}

pub struct Page<'a> {
    browser: &'a mut Browser,
    session: Option<String>,
    /// Every event that the page has sent.
    pub events: Vec<Value>,
}

impl Page<'_> {
    /// Sends a command and waits for its answer.
    pub fn order(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        let id = self.browser.send(session.as_deref(), method, &params);
        loop {
            let message = self.next();
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&mut self) -> Value {
        self.browser.answers.recv_timeout(PATIENCE).expect("an answer from the browser")
    }

    /// Loads a file and waits until its scripts have run.
    pub fn open(&mut self, file: &Path, screen: Screen) {
        self.visit(&format!("file://{}", file.display()), screen);
    }

    /// Loads a page and waits until its scripts have run.
    pub fn visit(&mut self, url: &str, screen: Screen) {
        let Screen { width, height, mobile, scheme } = screen;
        self.order(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}),
        );
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.order("Emulation.setEmulatedMedia", json!({"features": features}));
        self.events.clear();
        self.order("Page.navigate", json!({"url": url}));
        while !self.events.iter().any(|e| e["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.events.push(event);
        }
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let result = self.order("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// A PNG of the element that `selector` names, also if it is outside the visible area.
    pub fn picture(&mut self, selector: &str) -> Vec<u8> {
        let rect = self.value(&format!(
            "(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect(); \
             return {{x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1}} }})()"
        ));
        let shot = self.order("Page.captureScreenshot", json!({"captureBeyondViewport": true, "clip": rect}));
        base64(shot["data"].as_str().expect("a picture"))
    }

    /// The page's errors: exceptions, errors on the console, violations of its policy.
    pub fn complaints(&self) -> Vec<String> {
        let is_complaint = |e: &&Value| match e["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                matches!(e["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            Some("Log.entryAdded") => {
                matches!(e["params"]["entry"]["level"].as_str(), Some("error" | "warning"))
            }
            _ => false,
        };
        self.events.iter().filter(is_complaint).map(|e| e["params"].to_string()).collect()
    }

    /// The page's requests other than for itself.
    pub fn requests(&self) -> Vec<String> {
        let asked = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let urls = asked.filter_map(|e| e["params"]["request"]["url"].as_str());
        urls.filter(|url| !url.starts_with("blob:") && !url.starts_with("data:"))
            .skip(1)
            .map(str::to_string)
            .collect()
    }
}

/// Decodes the alphabet with `+` and `/`.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| -> u32 {
        (match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        })
        .into()
    };
    let clean: Vec<u8> = text.bytes().filter(|c| *c != b'=').collect();
    let group = |four: &[u8]| {
        let bits = four.iter().fold(0, |bits, c| bits << 6 | digit(*c)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    clean.chunks(4).flat_map(group).collect()
}
