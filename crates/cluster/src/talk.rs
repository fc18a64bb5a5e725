//! One question and its answer over a link, by a thread that waits.

use crate::protocol::{decode, encode};
use channel::{Closed, Link, Parker, SendError};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// A link and the place where its owner waits.
pub(crate) struct Talk {
    pub link: Link,
    pub parker: Parker,
}

impl Talk {
    /// # Errors
    /// The system has no descriptors left.
    pub fn over(mut link: Link) -> Result<Talk, String> {
        let parker = Parker::new().map_err(|e| e.to_string())?;
        link.register(&parker).map_err(|e| e.to_string())?;
        Ok(Talk { link, parker })
    }

    /// Sends one value.
    ///
    /// # Errors
    /// The link has ended.
    pub fn say<T: Serialize>(&mut self, value: &T) -> Result<(), String> {
        let sent = self.link.send(&[&encode(value)]);
        sent.map_err(|e: SendError| e.to_string())?;
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            self.link.flush().map_err(|e: Closed| e.to_string())?;
            if self.link.held() == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err("it does not read".into());
            }
            self.parker.park(Some(Duration::from_millis(20)), || true);
        }
    }

    /// The next value.
    ///
    /// # Errors
    /// The link has ended, or nothing came within `patience`.
    pub fn hear<T: for<'a> Deserialize<'a>>(&mut self, patience: Duration) -> Result<T, String> {
        let until = Instant::now() + patience;
        loop {
            if let Some(bytes) = self.link.receive().map_err(|e| e.to_string())? {
                return decode(bytes);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("no answer within {} s", patience.as_secs()));
            }
            self.parker.park(Some(left.min(Duration::from_millis(100))), || true);
        }
    }
}
