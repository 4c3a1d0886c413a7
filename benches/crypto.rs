//! What one signed or sealed frame costs: parsing, canonical bytes, verifying, sealing.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use oip_host::identity::{Check, Identity, Signature, verify, verify_batch};
use oip_host::seal::{accept, hello};
use oip_host::wire::json::{Form, Object, Raw, canonical, to_python};

const PAYLOAD: &str = r#"{"type":"EXEC","exec_id":"0c4b1e0e-3f9b-4a1c-8a53-2f61c0ffee00","tool":"echo_tool","args":{"text":"hello world","count":3},"timestamp":1796075359,"nonce":"8be0d993-5f0d-40c5-9b58-0c2871ef74bd","to":"0x53c992fb98930416b888f905be820b342b6bc248537b987f1e4f8ea43a1d9d4f"}"#;
const NOW: u64 = 1_796_075_359;

fn signer() -> Identity {
    Identity::from_seed(&[1; 32])
}

/// An EXEC frame of 512 bytes as a v2 client sends it.
fn frame() -> String {
    let value = Raw::parse(PAYLOAD).expect("sound JSON").value();
    let signature = Signature::from_bytes(signer().sign(&to_python(&value)));
    let from = signer().address();
    format!(r#"{{"type":"EXEC","payload":{PAYLOAD},"from":"{from}","signature":"{signature}"}}"#)
}

fn json(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json");
    let frame = frame();
    group.bench_function("parse an EXEC frame", |bencher| {
        bencher.iter(|| Object::parse(black_box(&frame)));
    });
    let raw = Raw::parse(PAYLOAD).expect("sound JSON");
    group.bench_function("build its payload", |bencher| {
        bencher.iter(|| black_box(raw).value());
    });
    let value = raw.value();
    for (name, form) in [("Python", Form::PYTHON), ("JavaScript", Form::JAVASCRIPT)] {
        group.bench_function(format!("canonical, {name}"), |bencher| {
            bencher.iter(|| canonical(black_box(&value), form));
        });
    }
    group.finish();
}

fn signatures(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("signatures");
    let signer = signer();
    let payload = Raw::parse(PAYLOAD).expect("sound JSON").value();
    let signature = Signature::from_bytes(signer.sign(&to_python(&payload)));
    let address = signer.address();
    group.bench_function("verify one", |bencher| {
        bencher.iter(|| verify(&address, &payload, black_box(&signature)));
    });
    let mut bytes = signature.to_bytes();
    bytes[0] ^= 1;
    let forged = Signature::from_bytes(bytes);
    group.bench_function("refuse one", |bencher| {
        bencher.iter(|| verify(&address, &payload, black_box(&forged)));
    });
    for count in [4, 16, 64] {
        let check = Check {
            signer: address,
            payload: &payload,
            signature,
        };
        let checks = vec![check; count];
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("verify {count} at once"), |bencher| {
            bencher.iter(|| verify_batch(black_box(&checks)));
        });
    }
    group.finish();
}

fn seal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("seal");
    let (client, host) = (signer(), Identity::from_seed(&[2; 32]));
    let (text, kept) = hello(&client, &host.address(), NOW);
    let seal = Object::parse(&text).expect("sound JSON");
    let answer = || accept(&seal, &host, NOW as f64).expect("a good SEAL");
    group.bench_function("accept a handshake", |bencher| bencher.iter(answer));
    let accepted = answer();
    let channel = kept.finish(&accepted.reply).expect("a good SEALED_OK");
    let (mut sealer, _) = channel.split();
    let (_, mut opener) = accepted.channel.split();
    for size in [512, 1 << 20] {
        let clear = format!("{{\"text\":\"{}\"}}", "x".repeat(size - 11));
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("seal {size} bytes"), |bencher| {
            bencher.iter(|| sealer.seal(black_box(&clear)));
        });
        group.bench_function(format!("seal and open {size} bytes"), |bencher| {
            bencher.iter(|| {
                let sealed = sealer.seal(black_box(&clear));
                Object::parse(&sealed).map(|frame| opener.open(&frame))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, json, signatures, seal);
criterion_main!(benches);
