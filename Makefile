GO ?= go

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...

test: build
	$(GO) test ./...

.PHONY: build test
