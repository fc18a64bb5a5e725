//! How long an append takes: `append_times ADDRESS [BYTES] [SECONDS]` appends one entry at a time
//! and prints the times in µs.

use relay::{Address, TakeOver, take_over};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address: Address = args.first().ok_or("expected an address")?.parse()?;
    let bytes: usize = args.get(1).map_or(Ok(4096), |n| n.parse())?;
    let seconds: u64 = args.get(2).map_or(Ok(5), |n| n.parse())?;
    let tape = address.open(&format!("times-{:x}", world::entropy()))?;
    let log = take_over(tape, &TakeOver::default(), &mut |_, _| Ok(()))?.log;
    let payload: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed() < Duration::from_secs(seconds) {
        let at = Instant::now();
        log.wait(log.append(&payload))?;
        times.push(at.elapsed().as_micros());
    }
    times.sort_unstable();
    let part = |of: usize| times[(times.len() - 1) * of / 1000];
    println!(
        "{} appends of {bytes} bytes, {:.0}/s: p50 {} us, p90 {} us, p99 {} us",
        times.len(),
        times.len() as f64 / began.elapsed().as_secs_f64(),
        part(500),
        part(900),
        part(990)
    );
    Ok(())
}
