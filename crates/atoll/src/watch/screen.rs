//! The terminal on standard error: the alternate screen while the dashboard is up, and the ordinary
//! screen before and after.
//!
//! Keys are left to the terminal, so that Ctrl-C keeps its usual meaning. Each entry to the
//! alternate screen has an exit: by [`Screen::leave`], by `drop`, or by the hook that runs before a
//! panic is reported.

use crate::failure::Failure;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Size;
use ratatui::{Frame, Terminal};
use std::io::{IsTerminal, Stderr, stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal shows the alternate screen: written by the thread that enters or leaves it,
/// read by the panic hook.
static ENTERED: AtomicBool = AtomicBool::new(false);

pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    /// The size at the last drawing.
    size: Size,
}

impl Screen {
    /// # Errors
    /// Standard error is no terminal.
    pub fn new() -> Result<Screen, Failure> {
        if !stderr().is_terminal() {
            return Err(Failure::Usage(
                "--watch: standard error is no terminal; expected one to draw on; leave --watch out, or run it in a terminal"
                    .into(),
            ));
        }
        leave_before_panics();
        Ok(Screen { terminal: terminal()?, size: Size::default() })
    }

    /// Draws; enters the alternate screen first if necessary.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> Result<(), Failure> {
        let size = self.terminal.size().map_err(cannot)?;
        let entering = !ENTERED.swap(true, Ordering::SeqCst);
        if entering {
            execute!(stderr(), EnterAlternateScreen, Hide).map_err(cannot)?;
        }
        if entering || size != self.size {
            // The terminal is opened again, not resized: a resize asks the terminal for its cursor
            // position and waits for the answer.
            execute!(stderr(), Clear(ClearType::All)).map_err(cannot)?;
            (self.terminal, self.size) = (terminal()?, size);
        }
        self.terminal.draw(picture).map(drop).map_err(cannot)
    }

    /// Leaves the alternate screen; [`Screen::draw`] enters it again.
    pub fn leave(&mut self) {
        leave();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn terminal() -> Result<Terminal<CrosstermBackend<Stderr>>, Failure> {
    Terminal::new(CrosstermBackend::new(stderr())).map_err(cannot)
}

fn leave() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        // Errors are ignored: a terminal that is gone needs no restoring.
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// A panic message belongs on the ordinary screen.
fn leave_before_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            report(info);
        }));
    });
}

fn cannot(error: std::io::Error) -> Failure {
    Failure::Run(format!("--watch: cannot draw on the terminal: {error}; leave --watch out"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Set for the child of the test below.
    const CHILD: &str = "ATOLL_TEST_PANICS_ON_SCREEN";

    #[test]
    fn a_panic_is_told_on_the_ordinary_screen() {
        if std::env::var_os(CHILD).is_some() {
            let mut screen = Screen::new().unwrap();
            screen.draw(|_| ()).unwrap();
            panic!("on purpose");
        }
        let me = std::env::current_exe().unwrap();
        let name = "watch::screen::tests::a_panic_is_told_on_the_ordinary_screen";
        let line = format!("stty rows 24 cols 80; exec '{}' {name} --exact --nocapture", me.display());
        let ran = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env(CHILD, "1")
            .stdin(Stdio::null())
            .output();
        let Ok(output) = ran else {
            eprintln!("skipped: no `script` (Debian's bsdutils) to make a terminal with");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what:?} in {text:?}"));
        assert!(at("\x1b[?1049h") < at("\x1b[?1049l") && at("\x1b[?1049l") < at("on purpose"), "{text:?}");
        assert!(at("\x1b[?25h") < at("on purpose"), "the cursor is back: {text:?}");
    }
}
