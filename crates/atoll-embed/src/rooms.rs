//! The thread that owns the instances of an open database.
//!
//! It starts them, starts those anew that have died, and stops them. It is one thread for the whole
//! life of the database, because the kernel ends a child process when the thread that started it
//! ends.

use crate::Error;
use base::InstanceId;
use channel::Address;
use deploy::{DataUse, DeployError, Deployment, Running};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks for dead instances, and for its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The instances of an open database.
pub(crate) struct Rooms {
    thread: Option<JoinHandle<Result<(), DeployError>>>,
    stops: Arc<AtomicBool>,
    /// Why they have failed.
    fault: Arc<Mutex<Option<String>>>,
    pub addresses: Vec<Address>,
    pub pids: Vec<u32>,
}

/// Where the instances are.
type Started = Result<(Vec<(InstanceId, Address)>, Vec<u32>), DeployError>;

impl Rooms {
    /// Starts the instances. A new database is loaded first.
    pub fn start(deployment: Deployment, is_new: bool) -> Result<Rooms, Error> {
        let (stops, fault) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (told, started) = mpsc::channel::<Started>();
        let (stop, wrong) = (Arc::clone(&stops), Arc::clone(&fault));
        let body = move || {
            let mut running = match launch(deployment, is_new) {
                Ok(running) => running,
                Err(error) => {
                    // The caller waits for this word.
                    let _ = told.send(Err(error));
                    return Ok(());
                }
            };
            let _ = told.send(Ok((running.addresses(), running.pids())));
            while !stop.load(Ordering::Acquire) {
                if let Err(error) = running.tend(LOOK_EVERY) {
                    *wrong.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                    return Err(error);
                }
            }
            running.stop(None)
        };
        let thread = std::thread::Builder::new().name("atoll-rooms".into()).spawn(body);
        let thread = thread.map_err(|why| Error::Failed(format!("cannot start a thread: {why}")))?;
        let gone = || Error::Failed("the thread of the database has ended".into());
        let (mut addresses, pids) = started.recv().map_err(|_| gone())??;
        addresses.sort_by_key(|(instance, _)| instance.0);
        let addresses = addresses.into_iter().map(|(_, address)| address).collect();
        Ok(Rooms { thread: Some(thread), stops, fault, addresses, pids })
    }

    /// Why the instances have failed, if they have.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the instances in order.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.stops.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended =
            thread.join().map_err(|_| Error::Failed("the thread of the database has panicked".into()))?;
        Ok(ended?)
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        // A caller that wants to know calls `stop`.
        let _ = self.stop();
    }
}

fn launch(deployment: Deployment, is_new: bool) -> Result<Running, DeployError> {
    if deployment.data.is_some() && is_new {
        let mut running = Deployment { data_use: DataUse::Load, ..deployment.clone() }.launch()?;
        running.load(&mut |_, _| {})?;
        running.stop(Some(0))?;
    }
    let mut running = deployment.launch()?;
    running.load(&mut |_, _| {})?;
    Ok(running)
}
