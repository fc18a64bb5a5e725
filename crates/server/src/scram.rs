//! SCRAM-SHA-256, the server's part: the client proves that it knows the password, and the server
//! that it knows the client's verifier. Neither sends the password.
//!
//! Source: RFC 5802 and RFC 7677. Texts of verifiers are PostgreSQL's:
//! `SCRAM-SHA-256$iterations:salt$stored key:server key`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2, rand};
use std::num::NonZeroU32;

/// What RFC 7677 asks for at least, and PostgreSQL's default.
const ITERATIONS: u32 = 4096;

/// What the server knows of a password. It does not suffice to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// A verifier of `password` with a new salt.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn of_password(password: &str) -> Result<Verifier, ring::error::Unspecified> {
        let salt: [u8; 16] = random()?;
        Ok(Verifier::with_salt(password, &salt, ITERATIONS))
    }

    fn with_salt(password: &str, salt: &[u8], iterations: u32) -> Verifier {
        // A password that has no normal form counts as its bytes, as in PostgreSQL.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; 32];
        let rounds = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, prepared.as_bytes(), &mut salted);
        let client_key = mac(&salted, b"Client Key");
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key: digest::digest(&digest::SHA256, &client_key).as_ref().to_vec(),
            server_key: mac(&salted, b"Server Key"),
        }
    }

    pub fn to_text(&self) -> String {
        format!(
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(&self.stored_key),
            STANDARD.encode(&self.server_key)
        )
    }

    /// `None` if the text is no verifier.
    pub fn from_text(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| STANDARD.decode(text).ok().filter(|key| key.len() == 32);
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|n| (1..=10_000_000).contains(n))?,
            salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

/// Random bytes.
///
/// # Errors
/// When the system gives none.
pub fn random<const N: usize>() -> Result<[u8; N], ring::error::Unspecified> {
    Ok(rand::generate::<[u8; N]>(&rand::SystemRandom::new())?.expose())
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

/// The exchange after the client's first message.
pub struct Exchange<'v> {
    verifier: &'v Verifier,
    /// The client's first message without its header, the server's first message.
    texts: String,
    nonce: String,
    header: String,
}

impl<'v> Exchange<'v> {
    /// Reads the client's first message, and returns the exchange with the server's answer.
    /// `nonce` is new and random. `None` if the message is no SCRAM message, or asks for what this
    /// server does not have.
    pub fn begin(verifier: &'v Verifier, client_first: &str, nonce: &[u8]) -> Option<(Exchange<'v>, String)> {
        // `n` or `y`: no channel binding; then perhaps another identity, which is not supported.
        let bare = client_first.strip_prefix("n,,").or_else(|| client_first.strip_prefix("y,,"))?;
        let header = client_first[..3].to_owned();
        let client_nonce = bare.split(',').nth(1)?.strip_prefix("r=")?;
        if !bare.starts_with("n=") || client_nonce.is_empty() {
            return None;
        }
        let nonce = format!("{client_nonce}{}", STANDARD.encode(nonce));
        let answer = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        Some((Exchange { verifier, texts: format!("{bare},{answer}"), nonce, header }, answer))
    }

    /// Reads the client's last message, and returns the server's if the proof holds.
    pub fn end(self, client_final: &str) -> Option<String> {
        let (without_proof, proof) = client_final.rsplit_once(",p=")?;
        let proof = STANDARD.decode(proof).ok()?;
        let mut parts = without_proof.split(',');
        let binding = parts.next()?.strip_prefix("c=")?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        if binding != STANDARD.encode(&self.header) || nonce != self.nonce || proof.len() != 32 {
            return None;
        }
        let texts = format!("{},{without_proof}", self.texts);
        let signature = mac(&self.verifier.stored_key, texts.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(p, s)| p ^ s).collect();
        let stored = digest::digest(&digest::SHA256, &client_key);
        // The time of this comparison tells a client nothing: it cannot choose the digest's bytes.
        (stored.as_ref() == self.verifier.stored_key).then_some(())?;
        Some(format!("v={}", STANDARD.encode(mac(&self.verifier.server_key, texts.as_bytes()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt("pencil", &salt, 4096);
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let (mut exchange, _) = Exchange::begin(&verifier, first, b"").unwrap();
        // The server's nonce of the example is not base64.
        exchange.nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into();
        exchange.texts = format!("{},r={},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", &first[3..], exchange.nonce);
        let last = format!("c=biws,r={},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", exchange.nonce);
        let answer = exchange.end(&last).expect("the proof holds");
        assert_eq!(answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_verifier_survives_as_text_and_a_wrong_proof_fails() {
        let verifier = Verifier::of_password("secret").unwrap();
        assert!(Verifier::from_text(&verifier.to_text()) == Some(verifier.clone()));
        assert!(Verifier::from_text("SCRAM-SHA-256$4096:abc").is_none());
        let (exchange, answer) = Exchange::begin(&verifier, "n,,n=,r=abc", b"0123456789").unwrap();
        let nonce = answer.split(',').next().unwrap();
        let proof = STANDARD.encode([7; 32]);
        assert_eq!(exchange.end(&format!("c=biws,{nonce},p={proof}")), None);
    }
}
