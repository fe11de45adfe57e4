package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
)

const (
	megabyte = 1 << 20
	// As TiKV reports them, in MB: all regions are of the usual size but the first, which is so
	// large that PD waits ten minutes for each step of an operator on it.
	regionSize, firstSize = 96, 60_000
	lookAgain             = 50 * time.Millisecond
	countFor              = 10 * time.Second
)

// heartbeats tells PD at intervals that the store lives, and how full it is.
func (s *store) heartbeats(ctx context.Context) {
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	last := time.Now()
	for {
		stats := s.stats(last)
		last = time.Now()
		_, err := ask(ctx, s.pd, pdpb.PDClient.StoreHeartbeat,
			&pdpb.StoreHeartbeatRequest{Header: s.pd.header(), Stats: stats})
		if err != nil && ctx.Err() == nil {
			s.log.write("ERROR", "store heartbeat failed", "err", err, "store_id", s.kept.Store)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *store) stats(since time.Time) *pdpb.StoreStats {
	capacity, available, used := s.space()
	puts := s.measure.takePuts()
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pdpb.StoreStats{
		StoreId:      s.kept.Store,
		Capacity:     capacity,
		Available:    available,
		UsedSize:     used,
		RegionCount:  uint32(len(s.kept.Regions)),
		StartTime:    uint32(s.started.Unix()),
		KeysWritten:  puts,
		BytesWritten: puts * putBytes,
		SlowScore:    1, // on a busy machine PD would drive the leaders away for ten minutes
		Interval:     interval(since, time.Now()),
	}
}

func interval(from, to time.Time) *pdpb.TimeInterval {
	return &pdpb.TimeInterval{StartTimestamp: uint64(from.Unix()), EndTimestamp: uint64(to.Unix())}
}

// space is that of the file system, as TiKV sees it, unless a capacity was set.
func (s *store) space() (capacity, available, used uint64) {
	filepath.WalkDir(s.dataDir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				used += uint64(info.Size())
			}
		}
		return nil
	})
	var disk syscall.Statfs_t
	if err := syscall.Statfs(s.dataDir, &disk); err != nil {
		return 0, 0, used
	}
	capacity = disk.Blocks * uint64(disk.Bsize)
	available = disk.Bavail * uint64(disk.Bsize)
	if s.capacity > 0 && s.capacity < capacity {
		capacity = s.capacity
		available = min(available, capacity-min(used, capacity))
	}
	return capacity, available, used
}

// regionHeartbeats tells PD of the regions that are led here, and does what PD then orders.
func (s *store) regionHeartbeats(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.stream(ctx)
		if ctx.Err() == nil {
			s.log.write("WARN", "region heartbeat stream ended, connecting again", "err", err)
			pause(ctx, againAfter)
		}
	}
}

func pause(ctx context.Context, span time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(span):
	}
}

func (s *store) stream(ctx context.Context) error {
	client, leader, err := s.pd.lead(ctx)
	if err != nil {
		return err
	}
	defer s.pd.lost(leader)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := client.RegionHeartbeat(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, r := range s.kept.Regions {
		r.news = true // this PD may never have heard of it
	}
	s.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- s.orders(ctx, stream) }()
	again := time.NewTicker(max(s.regionHeartbeat/10, lookAgain))
	defer again.Stop()
	for {
		for _, one := range s.reports(time.Now()) {
			if err := stream.Send(one); err != nil {
				return errors.Join(err, <-ended)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-s.wake:
		case <-again.C:
		}
	}
}

func (s *store) orders(ctx context.Context, stream pdpb.PD_RegionHeartbeatClient) error {
	for {
		order, err := stream.Recv()
		if err != nil {
			return err
		}
		if wrong := order.GetHeader().GetError(); wrong != nil {
			s.log.write("WARN", "PD did not take a region heartbeat", "err", wrong.GetMessage())
			continue
		}
		if order.GetRegionId() != 0 {
			go s.obey(ctx, order)
		}
	}
}

// reports are those that are due: of what is new, and of what was not told for a while.
func (s *store) reports(now time.Time) []*pdpb.RegionHeartbeatRequest {
	header := s.pd.header()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*pdpb.RegionHeartbeatRequest
	for _, r := range s.kept.Regions {
		if !s.leadsIt(r) || (!r.news && now.Sub(r.told) < s.regionHeartbeat) {
			continue
		}
		one := &pdpb.RegionHeartbeatRequest{
			Header:          header,
			Region:          copied(r.Region),
			Leader:          r.peer(r.leader),
			Term:            r.Term,
			ApproximateSize: regionSize * megabyte,
			ApproximateKeys: 1_000_000,
			Interval:        interval(now, now),
		}
		// PD passes over what was counted for less than three seconds.
		if since := now.Sub(r.counted); since >= countFor {
			one.KeysWritten, one.BytesWritten = r.flow.keys, r.flow.bytes
			one.Interval = interval(r.counted, now)
			r.counted, r.flow = now, flow{}
		}
		if len(r.Region.GetStartKey()) == 0 && len(r.Region.GetEndKey()) > 0 {
			one.ApproximateSize = firstSize * megabyte
		}
		if s.hotBytes > 0 && r.Region.GetId() == s.hottest() {
			// As if it had been so for a whole minute, which is how long PD wants to see it.
			one.BytesWritten, one.KeysWritten = s.hotBytes*60, 1000*60
			one.Interval = interval(now.Add(-time.Minute), now)
		}
		s.absent(r, now, one)
		r.news, r.told = false, now
		found = append(found, one)
	}
	return found
}

// hottest is the one region in which a hot store does its work, as long as it leads it. Holding the
// lock.
func (s *store) hottest() uint64 {
	if r := s.kept.Regions[s.hot]; r != nil && s.leadsIt(r) {
		return s.hot
	}
	s.hot = 0
	for id, r := range s.kept.Regions {
		if s.leadsIt(r) && (s.hot == 0 || id < s.hot) {
			s.hot = id
		}
	}
	return s.hot
}

// absent says which peers do not follow: those that have nothing yet, and those long unheard.
func (s *store) absent(r *replica, now time.Time, one *pdpb.RegionHeartbeatRequest) {
	for _, peer := range r.Region.GetPeers() {
		acked, known := r.acked[peer.GetId()]
		switch {
		case !known:
			one.PendingPeers = append(one.PendingPeers, peer)
		case now.Sub(acked) > s.peerDown:
			gone := uint64(now.Sub(acked).Seconds())
			one.DownPeers = append(one.DownPeers, &pdpb.PeerStats{Peer: peer, DownSeconds: gone})
		}
	}
}
