package seccomp

import "testing"

func BenchmarkDefault(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Default(Options{})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, abi := range abis {
		b.Run(abi.goarch, func(b *testing.B) {
			p := Default(Options{})
			b.ReportAllocs()
			for b.Loop() {
				prog, err := Compile(p, abi.goarch)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(prog)), "instructions")
			}
		})
	}
}
