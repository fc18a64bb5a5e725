//! Rows of text into a table, by COPY.

use super::place::Open;
use crate::failure::Failure;
use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::CopyInSink;

/// Rows that one `COPY` stores: a transaction of some megabytes.
const ROWS_AT_ONCE: u64 = 20_000;
/// Bytes that are sent at once.
pub const BYTES_AT_ONCE: usize = 256 << 10;

/// Stores rows of text, [`ROWS_AT_ONCE`] at a time, and returns their number.
///
/// # Errors
/// The server's, and those of `next`.
pub fn copy(
    open: &Open<'_>,
    statement: &str,
    next: &mut dyn FnMut() -> Result<Option<Vec<u8>>, Failure>,
) -> Result<u64, Failure> {
    let mut stored = 0;
    loop {
        let sink: CopyInSink<Bytes> = open.wait(open.client.copy_in(statement))?;
        let mut sink = std::pin::pin!(sink);
        let (mut rows, mut bytes, mut has_more) = (0, Vec::with_capacity(BYTES_AT_ONCE), true);
        while rows < ROWS_AT_ONCE {
            let Some(row) = next()? else {
                has_more = false;
                break;
            };
            rows += 1;
            bytes.extend(row);
            if bytes.len() >= BYTES_AT_ONCE {
                open.wait(sink.send(std::mem::take(&mut bytes).into()))?;
            }
        }
        open.wait(sink.send(bytes.into()))?;
        stored += open.wait(sink.as_mut().finish())?;
        if !has_more {
            return Ok(stored);
        }
    }
}
