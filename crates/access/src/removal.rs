//! Removal of a whole tree or heap: the pages that it consists of, and the record that frees them.
//!
//! The caller walks the pages: it calls [`pages_below`] for the root, then for the pages below the
//! root, and so on. It frees nothing before it has visited every page. A freed page keeps its bytes
//! until it is allocated again, so the walk can be repeated after a crash in the middle.

use crate::Journal;
use crate::bytes::Garbled;
use crate::heap::{Cell, Directory, LargeView, Root, Rows};
use crate::page::{
    KIND_DIRECTORY, KIND_HEAP_ROOT, KIND_LARGE_ROOT, KIND_NODE, KIND_PARTITIONS, KIND_ROWS, corrupt, is,
};
use crate::record::{Action, Kind, SystemBody};
use crate::tree::{Node, read_table};
use base::{PageId, TableId};
use latch::LatchPolicy;
use pages::{PageRef, Pool, Stop};
use wal::LogOrder;

/// Pages freed by one record: the body stays far below the record limit of the smallest log buffer.
const AT_ONCE: usize = 1000;

/// The pages that a page of a tree or heap leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Below {
    /// It is a page of another tree or heap, or of no known kind.
    Foreign,
    /// Look below these too.
    More(Vec<PageId>),
    /// Heap pages: nothing is below these if all rows of the heap
    /// [fit a page](crate::fits_page).
    Rows(Vec<PageId>),
    /// Nothing is below these.
    Last(Vec<PageId>),
}

/// The pages directly below `page` in the tree or heap `owner`.
///
/// # Errors
/// [`Stop`].
pub fn pages_below<L: LatchPolicy>(pool: &Pool, owner: TableId, page: PageId) -> Result<Below, Stop> {
    let page = pool.shared::<L>(page)?;
    if is(&page, KIND_NODE, owner) {
        return node(&page).map_err(|Garbled| corrupt(&page));
    }
    if is(&page, KIND_PARTITIONS, owner) {
        let (next, starts) = read_table(&page).map_err(|Garbled| corrupt(&page))?;
        let next = Some(next).filter(|next| *next != PageId(0));
        return Ok(Below::More(starts.into_iter().map(|(_, root)| root).chain(next).collect()));
    }
    if is(&page, KIND_HEAP_ROOT, owner) {
        let root = Root::new(page.bytes());
        return Ok(Below::More((0..root.directories()).map_while(|i| root.directory(i)).collect()));
    }
    if is(&page, KIND_DIRECTORY, owner) {
        let directory = Directory::new(page.bytes());
        return Ok(Below::Rows((0..directory.pages()).map_while(|i| directory.page(i)).collect()));
    }
    if is(&page, KIND_ROWS, owner) {
        return large_rows(&page).map_err(|Garbled| corrupt(&page));
    }
    if is(&page, KIND_LARGE_ROOT, owner) {
        let pages = LargeView::new(page.bytes()).pages().map_err(|Garbled| corrupt(&page))?;
        return Ok(Below::Last(pages.collect()));
    }
    Ok(Below::Foreign)
}

fn node<L: LatchPolicy>(page: &PageRef<'_, L>) -> Result<Below, Garbled> {
    let node = Node::new(page.bytes());
    if node.level() == 0 {
        return Ok(Below::Last(Vec::new()));
    }
    let children = (0..=node.count()).map(|i| node.child(i)).collect::<Result<_, _>>()?;
    Ok(if node.level() == 1 { Below::Last(children) } else { Below::More(children) })
}

/// The roots of the large rows that begin in a heap page, including those of ghost rows.
fn large_rows<L: LatchPolicy>(page: &PageRef<'_, L>) -> Result<Below, Garbled> {
    let rows = Rows::new(page.bytes());
    let mut roots = Vec::new();
    for slot in 0..rows.slots() {
        if let Some(Cell::Large(large)) = rows.any_cell(slot)? {
            roots.push(large.root);
        }
    }
    Ok(Below::More(roots))
}

/// Logs that these pages of `owner` are free. They must not be allocated again before the caller
/// has made sure that nothing leads to them, also after a crash.
pub fn log_freed(journal: &mut impl Journal, owner: TableId, pages: &[PageId]) {
    for some in pages.chunks(AT_ONCE) {
        let body = some.iter().fold(SystemBody::new(owner), |body, &page| body.with(page, Action::Freed));
        journal.system(Kind::System as u8, LogOrder::Last, &[body.as_slice()]);
    }
}
