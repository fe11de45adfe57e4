// A small store for tests: to PD it is a TiKV, and it keeps no data that anybody could want back.
//
// It speaks the store's side of PD's gRPC and does what PD orders, so that PD itself decides who is
// up, down, crowded or behind. Its regions agree on a leader by majority, over its service port.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Version is what PD compares with the version of the cluster; it is the one of the pinned PD.
const Version = "8.1.0-alpha"

type options struct {
	addr, advertiseAddr             string
	statusAddr, advertiseStatusAddr string
	endpoints, dataDir              string
	config, logFile                 string
}

func parse() (options, bool) {
	var o options
	var level string
	var version bool
	flag.StringVar(&o.addr, "addr", "127.0.0.1:20160", "where it serves")
	flag.StringVar(&o.advertiseAddr, "advertise-addr", "", "where others reach it")
	flag.StringVar(&o.statusAddr, "status-addr", "127.0.0.1:20180", "where it tells of itself")
	flag.StringVar(&o.advertiseStatusAddr, "advertise-status-addr", "", "where others ask it")
	flag.StringVar(&o.endpoints, "pd-endpoints", "127.0.0.1:2379", "PD, separated by commas")
	flag.StringVar(&o.dataDir, "data-dir", "store", "where it keeps what it knows")
	flag.StringVar(&o.config, "config", "", "its tikv.toml")
	flag.StringVar(&o.logFile, "log-file", "", "its log, instead of the standard error")
	flag.StringVar(&level, "log-level", "info", "taken, and not used")
	flag.BoolVar(&version, "version", false, "print the version")
	flag.BoolVar(&version, "V", false, "print the version")
	flag.Parse()
	if o.advertiseAddr == "" {
		o.advertiseAddr = o.addr
	}
	if o.advertiseStatusAddr == "" {
		o.advertiseStatusAddr = o.statusAddr
	}
	return o, version
}

func main() {
	o, version := parse()
	if version {
		fmt.Println("TiKV (store of the tests)\nRelease Version:   " + Version)
		return
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	conf, err := readSettings(o.config)
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", o.config, err)
	}
	log, err := openLog(o.logFile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dataDir, 0o755); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s := newStore(o, conf, log)
	if err := s.load(); err != nil {
		log.write("FATAL", "failed to open the data directory", "err", err)
		return err
	}
	if err := s.listen(ctx); err != nil {
		log.write("FATAL", "failed to bind", "err", err)
		return err
	}
	log.write("INFO", "Welcome to TiKV", "version", Version, "kind", "store of the tests")
	if err := s.join(ctx); err != nil {
		return err
	}
	go s.heartbeats(ctx)
	go s.regionHeartbeats(ctx)
	s.ticks(ctx)
	log.write("INFO", "received signal, shutting down")
	return nil
}
