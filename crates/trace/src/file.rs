//! The file: sections in their order, each checked. Its bytes are drawn in the [crate]'s
//! documentation.

use base::crc32c;
use std::path::Path;

const MAGIC: &[u8; 8] = b"ATOLLTRC";
/// The version that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;
/// The bytes of a block in its section.
const BLOCK_BYTES: usize = 16;

/// The file is no trace, or not one that this program can read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read {path}: {problem}")]
    Io { path: String, problem: std::io::Error },
    #[error("{path} is no trace: expected a file that atoll trace wrote")]
    Foreign { path: String },
    #[error(
        "{path} is a trace of version {found}: expected {VERSION}; capture it again, or use the program that wrote it"
    )]
    Version { path: String, found: u32 },
    #[error("{path} is damaged: {what}; capture it again")]
    Damaged { path: String, what: String },
}

/// A basic block of machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    pub address: u64,
    pub bytes: u16,
    pub instructions: u16,
    /// The number of its function.
    pub function: u32,
}

/// A function, and the component that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    pub component: String,
    pub name: String,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceFile {
    /// Facts about the capture, by name.
    pub meta: Vec<(String, String)>,
    pub kinds: Vec<String>,
    pub functions: Vec<Function>,
    pub blocks: Vec<Block>,
    /// The chunks of each thread.
    pub streams: Vec<Vec<u8>>,
}

impl TraceFile {
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.meta.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The file as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let lines =
            |lines: &mut dyn Iterator<Item = String>| lines.flat_map(|l| (l + "\n").into_bytes()).collect();
        let meta: Vec<u8> = lines(&mut self.meta.iter().map(|(name, value)| format!("{name}={value}")));
        let kinds: Vec<u8> = lines(&mut self.kinds.iter().cloned());
        let names: Vec<u8> =
            lines(&mut self.functions.iter().map(|f| format!("{}\t{}", f.component, f.name)));
        let blocks: Vec<u8> = self.blocks.iter().flat_map(block_bytes).collect();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((4 + self.streams.len() as u32).to_le_bytes());
        section(&mut bytes, b"META", &meta);
        section(&mut bytes, b"KIND", &kinds);
        section(&mut bytes, b"NAME", &names);
        section(&mut bytes, b"BLCK", &blocks);
        for stream in &self.streams {
            section(&mut bytes, b"STRM", stream);
        }
        bytes
    }

    /// # Errors
    /// [`TraceError`], with the path.
    pub fn read(path: &Path) -> Result<TraceFile, TraceError> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|problem| TraceError::Io { path: name.clone(), problem })?;
        TraceFile::parse(&name, &bytes)
    }

    /// # Errors
    /// [`TraceError`]; `path` is the file's name for messages.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<TraceFile, TraceError> {
        let damaged = |what: &str| TraceError::Damaged { path: path.to_owned(), what: what.to_owned() };
        let mut rest = Reader(bytes);
        if rest.take(8) != Some(MAGIC) {
            return Err(TraceError::Foreign { path: path.to_owned() });
        }
        let found = rest.u32().ok_or_else(|| damaged("its head is cut"))?;
        if found != VERSION {
            return Err(TraceError::Version { path: path.to_owned(), found });
        }
        let sections = rest.u32().ok_or_else(|| damaged("its head is cut"))?;
        let mut file = TraceFile::default();
        for number in 0..sections {
            let (name, content) =
                rest.section().ok_or_else(|| damaged(&format!("section {number} is cut or was changed")))?;
            file.add(name, content)
                .ok_or_else(|| damaged(&format!("section {number} is not as expected")))?;
        }
        if !rest.0.is_empty() {
            return Err(damaged("bytes follow the last section"));
        }
        let functions = file.functions.len();
        if file.blocks.iter().any(|block| block.function as usize >= functions) {
            return Err(damaged("a block is of an unknown function"));
        }
        Ok(file)
    }

    fn add(&mut self, name: &[u8], content: &[u8]) -> Option<()> {
        let text = || std::str::from_utf8(content).ok();
        match name {
            b"META" => {
                let fact = |line: &str| line.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
                self.meta = text()?.lines().map(fact).collect::<Option<_>>()?;
            }
            b"KIND" => self.kinds = text()?.lines().map(str::to_owned).collect(),
            b"NAME" => {
                let function = |line: &str| {
                    let (component, name) = line.split_once('\t')?;
                    Some(Function { component: component.to_owned(), name: name.to_owned() })
                };
                self.functions = text()?.lines().map(function).collect::<Option<_>>()?;
            }
            b"BLCK" if content.len().is_multiple_of(BLOCK_BYTES) => {
                self.blocks = content.chunks_exact(BLOCK_BYTES).map(block_of).collect::<Option<_>>()?;
            }
            b"STRM" => self.streams.push(content.to_vec()),
            _ => return None,
        }
        Some(())
    }
}

fn block_bytes(block: &Block) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[..8].copy_from_slice(&block.address.to_le_bytes());
    bytes[8..10].copy_from_slice(&block.bytes.to_le_bytes());
    bytes[10..12].copy_from_slice(&block.instructions.to_le_bytes());
    bytes[12..].copy_from_slice(&block.function.to_le_bytes());
    bytes
}

fn block_of(bytes: &[u8]) -> Option<Block> {
    Some(Block {
        address: u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?),
        bytes: u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?),
        instructions: u16::from_le_bytes(bytes.get(10..12)?.try_into().ok()?),
        function: u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?),
    })
}

fn section(bytes: &mut Vec<u8>, name: &[u8; 4], content: &[u8]) {
    bytes.extend(name);
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(crc32c(content).to_le_bytes());
    bytes.extend(content);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Name and content of the next section.
    fn section(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let name = self.take(4)?;
        let length = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        let checksum = self.u32()?;
        let content = self.take(usize::try_from(length).ok()?)?;
        (crc32c(content) == checksum).then_some((name, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TraceFile {
        TraceFile {
            meta: vec![("workload".into(), "tpcb".into())],
            kinds: vec!["deposit".into()],
            functions: vec![Function { component: "b-tree".into(), name: "access::get".into() }],
            blocks: vec![Block { address: 0x40_0000, bytes: 12, instructions: 3, function: 0 }],
            streams: vec![crate::chunk::pack(b"abc"), Vec::new()],
        }
    }

    #[test]
    fn a_file_comes_back() {
        let file = sample();
        assert_eq!(TraceFile::parse("t", &file.to_bytes()).unwrap(), file);
        assert_eq!(file.fact("workload"), Some("tpcb"));
    }

    #[test]
    fn each_kind_of_wrong_file_is_named() {
        let good = sample().to_bytes();
        let wrong = |bytes: &[u8]| TraceFile::parse("t", bytes).unwrap_err().to_string();
        assert!(wrong(b"{\"k\":1}").contains("no trace"));
        assert!(wrong(b"").contains("no trace"));
        let mut newer = good.clone();
        newer[8] = 2;
        assert!(wrong(&newer).contains("version 2"));
        for cut in 17..good.len() {
            assert!(wrong(&good[..cut]).contains("damaged"), "cut at {cut}");
        }
        for at in 16..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert!(TraceFile::parse("t", &changed).is_err(), "changed at {at}");
        }
        let mut longer = good;
        longer.push(0);
        assert!(wrong(&longer).contains("follow"));
    }
}
