//! etcd, by its JSON gateway (`/v3/...`), which each server has unless it is turned off: no
//! generated code, no protobuf compiler for the build, no runtime.

use crate::registry::{Entry, Guard, LeaseId, Registry, Unreachable};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that does not answer for this long is passed over.
const PATIENCE: Duration = Duration::from_millis(700);

pub(crate) struct Etcd {
    agent: ureq::Agent,
    servers: Vec<String>,
    /// The one that answered last.
    at: AtomicUsize,
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// Numbers of 64 bits are text in this form of JSON.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The end of the range of keys that begin with `prefix`.
fn behind(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        // Prefixes are names in ASCII.
        *last += 1;
    }
    STANDARD.encode(bytes)
}

impl Etcd {
    pub fn new(servers: Vec<String>) -> Etcd {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build();
        Etcd { agent: config.into(), servers, at: AtomicUsize::new(0) }
    }

    /// Asks one server after the other.
    fn ask(&self, what: &str, question: &Value) -> Result<Value, Unreachable> {
        let (begin, mut why) = (self.at.load(Ordering::Relaxed), String::new());
        for n in begin..begin + self.servers.len() {
            let server = &self.servers[n % self.servers.len()];
            let asked = self.agent.post(format!("{server}/v3/{what}")).send_json(question);
            match asked.and_then(|mut answer| answer.body_mut().read_json::<Value>()) {
                Ok(answer) => {
                    self.at.store(n % self.servers.len(), Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(e) => why = format!("{server}: {e}"),
            }
        }
        Err(Unreachable(why))
    }
}

impl Registry for Etcd {
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Unreachable> {
        let question = json!({ "key": encoded(prefix), "range_end": behind(prefix) });
        let answer = self.ask("kv/range", &question)?;
        let none = Vec::new();
        let all = answer["kvs"].as_array().unwrap_or(&none);
        let entry = |kv: &Value| {
            let (key, version) = (decoded(&kv["key"])?, number(&kv["mod_revision"])?);
            Some(Entry { key, value: decoded(&kv["value"]).unwrap_or_default(), version })
        };
        Ok(all.iter().filter_map(entry).collect())
    }

    fn put(&self, key: &str, value: &str, guard: Guard, lease: Option<LeaseId>) -> Result<bool, Unreachable> {
        let mut put = json!({ "key": encoded(key), "value": encoded(value) });
        if let Some(LeaseId(id)) = lease {
            put["lease"] = json!(id.to_string());
        }
        let compare = match guard {
            Guard::Nothing => json!([]),
            Guard::Version(version) => json!([{
                "key": encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": version.to_string()
            }]),
        };
        let question = json!({ "compare": compare, "success": [{ "request_put": put }] });
        Ok(self.ask("kv/txn", &question)?["succeeded"].as_bool().unwrap_or(false))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Unreachable> {
        let answer = self.ask("lease/grant", &json!({ "TTL": ttl.as_secs().max(1).to_string() }))?;
        number(&answer["ID"]).map(LeaseId).ok_or_else(|| Unreachable(format!("no lease in {answer}")))
    }

    fn renew(&self, lease: LeaseId) -> Result<bool, Unreachable> {
        let answer = self.ask("lease/keepalive", &json!({ "ID": lease.0.to_string() }))?;
        // Of an ended lease the time left is not told.
        Ok(number(&answer["result"]["TTL"]).unwrap_or(0) > 0)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Unreachable> {
        self.ask("lease/revoke", &json!({ "ID": lease.0.to_string() })).map(drop)
    }
}
