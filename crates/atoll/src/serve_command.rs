//! `atoll serve`: a deployment of the SQL workload, and a server of PostgreSQL's protocol in front
//! of it.
//!
//! The main thread owns the deployment and starts instances anew that have died; the server runs on
//! threads of its own. At the end the server stops first, so the instances have nothing to do when
//! they close.

use crate::base_command;
use crate::bench::live_machine;
use crate::cli::{BenchArgs, Cli, Command, DurabilityArg, HostArg, ServeArgs};
use crate::failure::Failure;
use crate::membership::Membership;
use crate::output::print;
use crate::record_command;
use crate::service;
use crate::sweep::Sweep;
use base::InstanceId;
use clap::Parser;
use deploy::{DataUse, Deployment, Host, Interrupt, RelayPlace, Running, Standing, standing};
use server::access::Access;
use server::deployed::Deployed;
use server::serving::{self, Options};
use server::shared::Limits;
use server::station::Stations;
use server::status::{About, Island, Recent, Status};
use server::tls::Certificate;
use sql::Database;
use sql::database::CATALOG;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use topology::IslandCount;
use tracing_subscriber::fmt::writer::MakeWriterExt;
use txn::Placement;
use workload::Recorder;
use workload::benchmark::Benchmark;
use world::tell;

/// How often the main thread looks for dead instances and for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest path of a Unix socket, in bytes.
const LONGEST_SOCKET: usize = 107;
/// The name under which the list of workloads has a SQL database.
const SQL: &str = "sql";

pub fn run(args: &ServeArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let recent = Recent::default();
    log_to(args.json, &recent);
    let outcome = open_and_serve(args, interrupt, recent, announce);
    tracing::info!("the server has ended");
    outcome
}

/// Serves a database to this process until it is interrupted; `ready` is told the address. Nothing
/// is printed.
///
/// # Errors
/// As those of the command.
pub fn serve_here(
    args: &ServeArgs,
    interrupt: &Interrupt,
    ready: impl FnOnce(SocketAddr) + Send + 'static,
) -> Result<(), Failure> {
    open_and_serve(args, interrupt, Recent::default(), ready)
}

fn open_and_serve(
    args: &ServeArgs,
    interrupt: &Interrupt,
    recent: Recent,
    ready: impl FnOnce(SocketAddr) + Send + 'static,
) -> Result<(), Failure> {
    if let Some(place) = &args.base {
        base_command::begin_with(place, &args.relay_name, &args.data, interrupt)?;
    }
    let deployment = plan(args, interrupt)?;
    may_record(args, &deployment)?;
    let is_new = !matches!(standing(&args.data)?, Standing::Database(_));
    if is_new {
        let load = Deployment { data_use: DataUse::Load, ..deployment.clone() };
        let mut running = load.launch()?;
        running.load(&mut |_, _| {})?;
        running.stop(Some(0))?;
    }
    // From here on a signal is the server's: the deployment must not end before it.
    let mut deployment = Deployment { interrupt: Interrupt::default(), ..deployment };
    let stations = Arc::new(Stations::default());
    if deployment.host == Host::Thread {
        stations.take_in(deployment.number);
    }
    let membership = Membership::begin(args, &mut deployment)?;
    let running = deployment.launch()?;
    set_password(args)?;
    serve(args, (running, membership), stations, interrupt, (recent, ready))
}

/// The deployment that the options ask for, or that the database has.
fn plan(args: &ServeArgs, interrupt: &Interrupt) -> Result<Deployment, Failure> {
    if args.durability == DurabilityArg::Memory {
        let why = "--durability memory: the database would be gone with the server; expected sync or async";
        return Err(Failure::Usage(why.into()));
    }
    let islands = match standing(&args.data)? {
        Standing::Database(manifest) => IslandCount::Count(manifest.islands.into()),
        _ => IslandCount::Count(1),
    };
    let islands = args.islands.unwrap_or(islands);
    // Sessions run on the workers' threads then, and nothing is passed on from thread to thread.
    // With several islands a process each survives the end of the others.
    let host = if islands == IslandCount::Count(1) { HostArg::Thread } else { HostArg::Process };
    let mut bench = default_bench()?;
    bench.workload = SQL.into();
    bench.deployment.islands = vec![islands];
    bench.deployment.design = vec![args.design];
    bench.deployment.workers = args.workers.into_iter().collect();
    bench.deployment.host = vec![args.host.unwrap_or(host)];
    bench.deployment.durability = vec![args.durability];
    bench.deployment.relay.clone_from(&args.relay);
    bench.deployment.memory = Some(args.memory);
    let sweep = Sweep::plan(&bench, &live_machine("live")?, interrupt)?;
    sweep.remarks.iter().for_each(|remark| tell(format_args!("atoll: warning: {remark}")));
    let Some(stop) = sweep.stops.into_iter().next() else {
        return Err(Failure::Usage("there is nothing to serve".into()));
    };
    let mut options = stop.deployment.options;
    options.lock_timeout_ms = u64::try_from(args.lock_timeout.as_millis()).unwrap_or(u64::MAX);
    // The threads of sessions need the cores too: no worker may wait for messages on its core.
    let oversubscribed = true;
    let data = Some(args.data.clone());
    let relay = stop.deployment.relay.map(|place| RelayPlace {
        name: args.relay_name.clone(),
        accept_loss: args.accept_loss,
        ..place
    });
    Ok(Deployment { data, data_use: DataUse::Keep, options, oversubscribed, relay, ..stop.deployment })
}

fn default_bench() -> Result<BenchArgs, Failure> {
    let defaults = Cli::try_parse_from(["atoll", "bench", "micro"]).map_err(Failure::run)?;
    match defaults.command {
        Some(Command::Bench(bench)) => Ok(*bench),
        _ => Err(Failure::Run("the bench command has lost its defaults".into())),
    }
}

fn set_password(args: &ServeArgs) -> Result<(), Failure> {
    let Some(file) = &args.password_file else { return Ok(()) };
    let cannot = |why: std::io::Error| Failure::Run(format!("--password-file {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(cannot)?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        let why = format!("--password-file {}: its first line is empty; expected a password", file.display());
        return Err(Failure::Usage(why));
    }
    Access::open(&args.data).and_then(|access| access.set_password(Some(password))).map_err(cannot)
}

fn serve(
    args: &ServeArgs,
    (mut running, membership): (Running, Option<Membership>),
    stations: Arc<Stations>,
    interrupt: &Interrupt,
    (recent, ready): (Recent, impl FnOnce(SocketAddr) + Send + 'static),
) -> Result<(), Failure> {
    let database = Database::from_spec(&running.deployment().spec).map_err(Failure::run)?;
    let engine = engine_of(&running, database, stations).map_err(Failure::run)?;
    let about = about(running.deployment());
    let status = args.status.map(|listen| Status { listen, about: about.clone(), recent });
    let options = options(args, database, status);
    let (stop, stopping) = watch::channel(false);
    // It accepts clients and has the server's own tasks; sessions run on the stations.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("atoll-server")
        .enable_all()
        .build()
        .map_err(Failure::run)?;
    let server = runtime.spawn(serving::serve(engine, options, stopping, ready));
    let mut recorded = Recorded::begin(args, running.deployment())?;
    let mut failed = None;
    while !server.is_finished() && !interrupt.is_set() {
        if let Some(Err(over)) = membership.as_ref().map(|own| own.tend(&mut running)) {
            // Nothing in order: another machine may have the islands.
            service::tell("STOPPING=1");
            return Err(over);
        }
        recorded.tend(false);
        match running.tend(LOOK_EVERY) {
            Ok(restarted) => restarted.iter().for_each(|instance| {
                about.islands[usize::from(instance.0)].restarts.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(instance = instance.0, "an instance has died and runs again");
            }),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    service::tell("STOPPING=1");
    // The server may have ended already.
    let _ = stop.send(true);
    let served = runtime.block_on(server).map_err(Failure::run)?;
    drop(runtime);
    recorded.tend(true);
    if let Some(error) = failed {
        return Err(error.into());
    }
    running.stop(None)?;
    served.map_err(Failure::run)
}

/// # Errors
/// `--record` with instances of which this process does not see the transactions.
fn may_record(args: &ServeArgs, deployment: &Deployment) -> Result<(), Failure> {
    let Some(out) = &args.record else { return Ok(()) };
    record_command::refuse_place(out)?;
    if deployment.islands == 1 && deployment.host == Host::Thread && !deployment.design.owns_keys() {
        return Ok(());
    }
    let why = "--record: only transactions of one island on threads of this process are seen, under conventional, occ or serial; expected \
               --islands 1 --host thread. The recording says how they fare on more islands, and under other designs";
    Err(Failure::Usage(why.into()))
}

/// The transactions of clients, until enough of them are recorded.
struct Recorded<'a> {
    recorder: Option<Recorder>,
    out: Option<&'a Path>,
}

impl<'a> Recorded<'a> {
    fn begin(args: &'a ServeArgs, deployment: &Deployment) -> Result<Recorded<'a>, Failure> {
        let Some(out) = args.record.as_deref() else { return Ok(Recorded { recorder: None, out: None }) };
        let workload = deployment.spec.build().map_err(Failure::run)?;
        // The catalog is the database's own.
        let besides = [sql::place::table_id(CATALOG)];
        let recorder = record_command::begin(&workload, SQL, args.record_transactions, &besides)?;
        Ok(Recorded { recorder: Some(recorder), out: Some(out) })
    }

    /// Writes the file once there are enough transactions, or when the server ends.
    fn tend(&mut self, is_last: bool) {
        let (Some(recorder), Some(out)) = (self.recorder.take_if(|r| is_last || r.is_full()), self.out)
        else {
            return;
        };
        let kept = recorder.finish().map(|recording| (record_command::keep(&recording, out), recording));
        match kept {
            Some((Ok(()), recording)) => tracing::info!("{}", record_command::summary(&recording, out)),
            Some((Err(why), _)) => tracing::error!("--record: {why}"),
            None => tracing::warn!("--record: no transaction was recorded, and no file written"),
        }
    }
}

fn engine_of(running: &Running, database: Database, stations: Arc<Stations>) -> std::io::Result<Deployed> {
    let deployment = running.deployment();
    let mut addresses = running.addresses();
    addresses.sort_by_key(|(instance, _)| instance.0);
    let addresses = addresses.into_iter().map(|(_, address)| address).collect();
    let placement = Placement::even(deployment.sites, deployment.islands);
    Deployed::new(database, placement, (deployment.number, addresses), stations)
}

/// What the status page tells of the deployment.
fn about(deployment: &Deployment) -> About {
    let placement = Placement::even(deployment.sites, deployment.islands);
    let islands = (0..deployment.islands).map(|number| {
        let sites = placement.sites_of(InstanceId(number));
        Island {
            workers: deployment.workers_of(number),
            slots: (sites.start.into(), sites.end.saturating_sub(1).into()),
            restarts: AtomicU64::new(0),
        }
    });
    About {
        version: format!("atoll {}", crate::version::short()),
        design: deployment.design.name().into(),
        durability: deployment.durability.name().into(),
        islands: islands.collect(),
    }
}

fn options(args: &ServeArgs, database: Database, status: Option<Status>) -> Options {
    let certificate = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => {
            Certificate::Files { certificate: certificate.clone(), key: key.clone() }
        }
        _ => Certificate::Own(args.data.clone()),
    };
    Options {
        listen: args.listen,
        unix: socket_in(&args.data, args.listen.port()),
        dir: args.data.clone(),
        certificate: Some(certificate),
        limits: Limits {
            connections: args.connections as usize,
            statement: args.statement_timeout,
            idle_transaction: args.idle_transaction_timeout,
            ..Limits::default()
        },
        stores: database.stores,
        status,
    }
}

/// The path at which clients look for a Unix socket in this directory.
fn socket_in(dir: &Path, port: u16) -> Option<PathBuf> {
    let path = dir.join(format!(".s.PGSQL.{port}"));
    (path.as_os_str().len() <= LONGEST_SOCKET).then_some(path)
}

fn announce(address: SocketAddr) {
    let host = match address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        ip => ip.to_string(),
    };
    let port = address.port();
    let line = format!("ready at {address}; try: psql -h {host} -p {port} -U {} test", server::access::USER);
    // A server with a closed output serves all the same.
    let _ = print(&line);
    service::tell("READY=1");
    tracing::info!(%address, "the server is ready");
}

/// Events of the server, a line each on standard error and for the status page.
fn log_to(json: bool, recent: &Recent) {
    let recent = recent.clone();
    let writer = std::io::stderr.and(move || recent.clone());
    let builder = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).with_target(false);
    // Only a test sets a log before this.
    let _ = if json { builder.json().try_init() } else { builder.try_init() };
}
