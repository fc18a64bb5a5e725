//! The texts below the lists of options: further effects of a command, examples, exit codes.

pub const SEE_HELP: &str = "Examples, and all that an option says: --help in place of -h.";

/// The first screen: `atoll -h`.
pub const FIRST: &str = "\
Atoll: an OLTP database engine that runs as any number of instances over the cores of a machine,
and measures which deployment suits which workload.

Three commands to begin with:
  atoll                              look at this machine, measure the deployments that fit it, name the
                                     best for each workload; takes about a minute
  atoll bench tpcc --islands 1,2     TPC-C on one instance over all cores, and on two
  atoll bench tpcc --help            the options of one workload

Commands:
  bench WORKLOAD     measure: micro, tpcb, tpcc, tatp and their parts; counter, ipc
  load, check        build a database on disk; check one
  backup, dump       copy one: as it is, or as SQL or CSV; restore makes it anew
  report, compare    charts and tables from earlier runs as one HTML page; two runs side by side
  serve --data DIR   tables of your own, for clients of PostgreSQL
  agent, cluster     instances on several machines; base copies of their data: base
  plan WORKLOAD      which deployment fits a machine and a workload
  stats WORKLOAD     what one transaction touches
  trace, cachesim    its instructions and accesses, recorded; on modelled caches
  topology           the cores of this machine and how far apart they are
  figures, claims    the papers that Atoll builds on, measured here
  completions, man   for your shell and your manual

All commands with examples: atoll --help. The options of one: atoll COMMAND -h, or --help for all of them.";

/// The text that `atoll` prints before it begins.
pub const WELCOME: &str = "\
Atoll looks at this machine, measures the deployments that fit it, and names the best for each
workload. It begins now and takes about a minute; Ctrl-C ends it. To try besides:
  atoll bench tpcc --islands 1,2     TPC-C on one instance over all cores, and on two
  atoll bench tpcc --help            the options of one workload
  atoll -h                           all commands
";

pub const ALL: &str = "\
Examples:
  atoll                                     this machine's islands, and the deployment that suits it best
  atoll plan tpcb                           which deployment fits this machine, and why
  atoll topology --probe                    sockets, caches, cores, and measured core-to-core latency
  atoll bench micro --islands 1,per-core    one instance over all cores against one per core
  atoll bench tpcb --durability sync --json
  atoll bench tpcc --help                   the options of one workload
  atoll load tpcb --scale 4 --data DIR      a database that lasts; bench --data DIR then runs on copies of it
  atoll check --data DIR                    is every page, index and row of it as it should be?
  atoll backup DIR --to DIR.tar             a copy with checksums, for atoll restore
  atoll dump DIR --to FILE.sql              a database as SQL, for atoll restore, psql or PostgreSQL
  atoll serve --data DIR                    a database for psql and every other client of PostgreSQL
  atoll cluster up --hosts FILE             agents on several machines, for bench --hosts FILE
  atoll stats tpcc                          records, locks and pages that one transaction touches
  atoll report rows.jsonl --out page.html   charts and tables of rows measured earlier
  atoll compare before after                which rows of two runs differ beyond spread and noise
  atoll figures --list                      the figures of the papers behind this, to be measured here
  atoll claims --quick                      which of the papers' claims hold on this machine

An island is a group of cores that exchange data fast: a shared L3 cache, a socket. An instance is one database engine with
its own memory, log and worker threads. A deployment is a number of instances over the cores, and the data divided among
them; a transaction that touches several instances commits with two-phase commit.";

pub const PLAN: &str = "\
On the live machine short probes measure the costs of the model, which are kept for later plans; the model chooses the
deployments that may be the best, and short measured trials decide between them. For a described machine the model decides alone.

Examples:
  atoll plan micro --op update --multisite 20       the deployment for this machine, in a minute
  atoll plan tpcb --machine machines/quad-socket-e7530.toml
  atoll plan tpcc --objective 'p99<5ms' --budget 2m --out plan.toml
  atoll bench tpcc --plan plan.toml                 measures the plan's choice
  atoll plan micro --calibrate --no-trials          measures the costs anew; the model decides
  atoll plan micro --explain occ/1 serial/2/shm     why does one beat the other?
  atoll plan micro --map multisite,skew --machine machines/dual-amd-epyc-7742-64-core.csv
  atoll plan tpcb --settings postgres               the same islands as settings of another server";

pub const TOPOLOGY: &str = "\
Examples:
  atoll topology
  atoll topology --probe --json
  atoll topology --machine \"package:2 l3:2 core:4\"

Exit code: 0 success; 1 the probe failed; 2 wrong usage.";

pub const LOAD: &str = "\
When the command has succeeded, the database is on the device. A load that was interrupted is started anew by the same
command; a directory that holds this very database already is left as it is.

Examples:
  atoll load tpcb --scale 4 --islands 2 --data bank
  atoll bench tpcb --data bank --durability async,sync
  atoll load micro --dataset 1000000 --data rows
  atoll load tpcc --scale 2 --design occ --data warehouses

Exit code: 0 the database is there; 1 it could not be loaded; 2 wrong usage; 130 interrupted.";

pub const CHECK: &str = "\
Nothing may run on the database meanwhile, and the check changes nothing: what a restart would repair or undo is worked out
in memory. It looks at the checksum of every page, at every index against its rows in both directions, at which pages belong
to which table, at the whole log, and at the consistency conditions of the workload. In a database of design occ it looks at
the blocks of checkpoint and log, at every index against its rows, and at the same conditions.

Examples:
  atoll check --data bank
  atoll check --data bank --json | jq 'select(.weight == \"damage\")'

Exit code: 0 nothing is damaged; 1 damage was found, a consistency condition does not hold, or the database is in use or half
loaded; 2 wrong usage: there is no database in DIR, or one of another format.";

pub const STATS: &str = "\
One client on one worker runs the workload, and every record, lock and page is counted. Means are per transaction of a kind
that was carried out (rollbacks that the workload asks for included), and over the mix per committed one.

Examples:
  atoll stats tpcb --accounts 10000
  atoll stats tpcc --scale 2
  atoll stats tatp --json | jq '.workload_stats'

Exit code: 0 success; 1 the run failed; 2 wrong usage; 130 interrupted.";

pub const RECORD: &str = "\
One worker carries out the transactions. The file has no data: the rows that each transaction touches, by table and site, and which of
them are popular. `replay` does the same on rows of its own, as large, under any design and number of islands; a plan for it is a plan for
the recorded workload. As many islands as the recording has sites can be tried: --scale sets them. To record what clients of your own
tables do: atoll serve --record FILE.

Examples:
  atoll record tpce --out tpce.rec
  atoll plan replay --recording tpce.rec            the deployment for it on this machine
  atoll record tpcc --scale 24 --out tpcc.rec       sites for up to 24 islands
  atoll plan replay --recording tpcc.rec --machine machines/quad-socket-e7530.toml
  atoll bench replay --recording tpce.rec --islands 1,2 --design conventional,occ

Exit code: 0 success; 1 the run failed; 2 wrong usage; 130 interrupted.";

pub const TRACE: &str = "\
The program runs under qemu's user mode, a hundred times slower. A transaction of TPC-C's mix takes some 40 KB of the file.
The components of inlined code are known where the program was built with CARGO_PROFILE_RELEASE_DEBUG=line-tables-only.

Examples:
  atoll trace tpcc --transactions 1000 --out t            one worker, one client
  atoll trace tpcc --transactions 1000 --workers 16 --out t
  atoll trace tpcc --quota new_order=100 --quota payment=100 --out t
  atoll trace tpcb --design occ --out t

Exit code: 0 success; 1 the capture failed or holds fewer transactions than asked for; 2 wrong usage; 130 interrupted.";

pub const CACHESIM: &str = "\
Nothing is measured: the same trace and options give the same rows.

Examples:
  atoll cachesim t --study chapter-6                       misses by cache, operation and component
  atoll cachesim t --study chapter-6 --machine epyc-7763
  atoll cachesim t --study chapter-7 --json                STREX and SLICC on 2 to 16 cores
  atoll cachesim t --study chapter-7 --page t.html         the same as a page with charts
  atoll cachesim t --study chapter-8                       ADDICT beside them
  atoll cachesim t --scheduler strex --cores 1 --team 16

Exit code: 0 success; 1 the trace is no trace, is damaged, or lacks what the study needs; 2 wrong usage.";

pub const REPORT: &str = "\
The rows of several files are joined: rows with the same settings are told apart by their file. A machine.json beside a file
of rows is drawn. Lines that are no rows are named and left out, and so is a file that cannot be read.

Examples:
  atoll bench micro --islands 1,2 --multisite 0,20,100 --profile --out first
  atoll report first second/rows.jsonl --out both.html
  atoll bench tpcb --json | atoll report - --out tpcb.html
  atoll report first --csv first.csv

Exit code: 0 all rows are in the report; 1 something was left out, or nothing could be read or written; 2 wrong usage.";

pub const BENCH_SHORT: &str = "\
This is the short list: --help has all options, what each value means, and examples; atoll bench WORKLOAD --help has the options of one workload.";

pub const BENCH: &str = "\
Every combination of the values in comma lists is measured: a row each, printed when it is measured, as a line of a table or
with --json as a JSON line. A plan is printed first; --dry-run prints the plan alone.

Examples:
  atoll bench tpcc --islands 1,2 --dry-run
  atoll bench micro --islands 1,2 --design conventional,serial --op read,update --multisite 0,20,100
  atoll bench micro --channel shm,uds --multisite 100 --durability memory --json
  atoll bench tpcb --multisite 50 --durability sync --islands 2 --channel shm,uds --kill 200
  atoll bench tpcb --design conventional,serial --islands 2 --profile
  atoll bench tpcb --accounts 10000 --remote account,teller --padding none,page
  atoll bench tpcb --load-model open --rate 1000,10000,50000 --progress 1s
  atoll bench tpcc --think standard --terminals 1000 --scale 100 --warmup auto
  atoll bench tatp-get-subscriber-data --phases shift.txt --repeat 1 --duration 20s
  atoll bench tpcc --islands 1,2 --profile --watch --out results
  atoll bench tatp --ids uniform --predicate standard,reversed --json
  atoll bench counter --placement island,spread
  atoll bench ipc --channel shm,uds,pipe

Ctrl-C ends a run in order: the rows measured so far are printed and kept, and the one under way too if its warm-up was over.

Exit code: 0 success; 1 the run failed or a consistency check did not hold; 2 wrong usage; 130 interrupted.";

pub const COMPLETIONS: &str = "\
Examples:
  atoll completions bash > ~/.local/share/bash-completion/completions/atoll
  atoll completions zsh > \"${fpath[1]}/_atoll\"
  atoll completions fish > ~/.config/fish/completions/atoll.fish";
