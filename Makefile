GO ?= go
BIN := bin
PREFIX ?= /usr/local

# Static binaries without symbols: the guest starts in every container. The
# command line does without what writes manual pages, which costs milliseconds
# at every start.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -tags urfave_cli_no_docs -ldflags '-s -w' -o $(BIN)/

.PHONY: build test bench lint demo install

build:
	$(BUILD) ./cmd/...

# As root, the tests run a second time as an ordinary user.
test: build
	$(GO) test ./...
	if [ "$$(id -u)" = 0 ]; then $(GO) run ./test/asuser; fi

bench: build
	$(GO) run ./test/bench -out bench.json

lint:
	gofmt -l .
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

demo: build
	sh test/demo/demo.sh $(BIN)/sallyport

install: build
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(BIN)/sallyport $(BIN)/sallyport-guest $(DESTDIR)$(PREFIX)/bin
