package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

const regionsAtFirst = 90

func itoa(number uint64) string { return strconv.FormatUint(number, 10) }

// obey does what PD orders for a region, if it is still the region that PD means.
func (s *store) obey(ctx context.Context, order *pdpb.RegionHeartbeatResponse) {
	s.mu.Lock()
	r := s.kept.Regions[order.GetRegionId()]
	meant := r != nil && s.leadsIt(r) && same(r.Region.GetRegionEpoch(), order.GetRegionEpoch())
	s.mu.Unlock()
	if !meant {
		return
	}
	var what string
	var err error
	switch {
	case order.GetTransferLeader() != nil:
		what, err = "transfer leader", s.transfer(ctx, r, order.GetTransferLeader())
	case order.GetChangePeer() != nil:
		what, err = "change peer", s.change(ctx, r, []*pdpb.ChangePeer{order.GetChangePeer()})
	case order.GetChangePeerV2() != nil:
		what, err = "change peers", s.change(ctx, r, order.GetChangePeerV2().GetChanges())
	case order.GetMerge() != nil:
		what, err = "merge region", s.merge(ctx, r, order.GetMerge().GetTarget())
	case order.GetSplitRegion() != nil:
		what, err = "split region", s.splitAsTold(ctx, r, order.GetSplitRegion())
	default:
		return
	}
	if err != nil {
		s.log.write("WARN", "failed to do what PD ordered", "what", what,
			"region_id", order.GetRegionId(), "err", err)
		return
	}
	s.log.write("INFO", "did what PD ordered", "what", what, "region_id", order.GetRegionId())
	s.save()
}

func (s *store) transfer(ctx context.Context, r *replica, told *pdpb.TransferLeader) error {
	err := errNotAgreed
	for _, to := range append([]*metapb.Peer{told.GetPeer()}, told.GetPeers()...) {
		if to.GetStoreId() == s.kept.Store || to == nil {
			continue
		}
		s.log.write("INFO", "transfer leader", "region_id", r.Region.GetId(), "to_peer", to.GetId(),
			"peer_id", r.leader)
		if err = s.handOver(ctx, r, to); err == nil {
			return nil
		}
	}
	return err
}

func (s *store) change(ctx context.Context, r *replica, changes []*pdpb.ChangePeer) error {
	s.mu.Lock()
	next, err := changed(r.Region, changes)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.propose(ctx, r, []*metapb.Region{next}, nil)
}

func (s *store) splitAsTold(ctx context.Context, r *replica, told *pdpb.SplitRegion) error {
	s.mu.Lock()
	region := r.Region
	s.mu.Unlock()
	if told.GetPolicy() == pdpb.CheckPolicy_USEKEY {
		return s.splitAt(ctx, r, inside(region, told.GetKeys()))
	}
	return s.splitAt(ctx, r, inside(region, [][]byte{middle(region)}))
}

func (s *store) splitAt(ctx context.Context, r *replica, keys [][]byte) error {
	if len(keys) == 0 {
		return fmt.Errorf("no key lies inside of region %d", r.Region.GetId())
	}
	s.mu.Lock()
	region := r.Region
	s.mu.Unlock()
	header := s.pd.header()
	found, err := ask(ctx, s.pd, pdpb.PDClient.AskBatchSplit, &pdpb.AskBatchSplitRequest{
		Header: header, Region: region, SplitCount: uint32(len(keys))})
	if err != nil {
		return err
	}
	pieces, err := split(region, keys, found.GetIds())
	if err != nil {
		return err
	}
	if err := s.propose(ctx, r, pieces, nil); err != nil {
		return err
	}
	_, err = ask(ctx, s.pd, pdpb.PDClient.ReportBatchSplit,
		&pdpb.ReportBatchSplitRequest{Header: header, Regions: pieces})
	return err
}

// presplitOnce cuts the region of the shop into many, once it has all its peers. PD itself splits
// the one region of a new cluster where the spaces of its keys begin.
func (s *store) presplitOnce(ctx context.Context) {
	var keys [][]byte
	for i := 1; i < regionsAtFirst; i++ {
		keys = append(keys, []byte(fmt.Sprintf("shop/%03d", i)))
	}
	s.mu.Lock()
	var whole *replica
	for _, r := range s.kept.Regions {
		if s.leadsIt(r) && len(inside(r.Region, keys)) == len(keys) {
			whole = r
		}
	}
	ready := whole != nil && len(whole.Region.GetPeers()) == 3 && len(s.kept.Regions) > 1
	for _, peer := range whole.peers() {
		ready = ready && peer.GetRole() == metapb.PeerRole_Voter
	}
	s.mu.Unlock()
	if !ready {
		return
	}
	s.once(firstCut, func() {
		if err := s.splitAt(ctx, whole, keys); err != nil {
			s.log.write("WARN", "the first region is not split yet", "err", err)
			return
		}
		s.save()
	})
}

// firstCut is no store's number, under which the first split is under way.
const firstCut = ^uint64(0)

// absorbing is a region that becomes part of its neighbour.
type absorbing struct {
	Source *metapb.Region
	Target uint64
}

// merge asks who leads the neighbour to take the region in.
func (s *store) merge(ctx context.Context, r *replica, target *metapb.Region) error {
	s.mu.Lock()
	wish := &absorbing{r.Region, target.GetId()}
	leader := uint64(0)
	if beside := s.kept.Regions[target.GetId()]; beside != nil {
		leader = beside.peer(beside.leader).GetStoreId()
	}
	s.mu.Unlock()
	if leader == s.kept.Store {
		_, err := s.hearMerge(ctx, wish)
		return err
	}
	if leader == 0 {
		return fmt.Errorf("nobody leads region %d", target.GetId())
	}
	return s.call(ctx, leader, "/peer/merge", wish, &struct{}{})
}

// hearMerge is the other side of merge.
func (s *store) hearMerge(ctx context.Context, wish *absorbing) (*struct{}, error) {
	s.mu.Lock()
	r := s.kept.Regions[wish.Target]
	if r == nil || !s.leadsIt(r) {
		s.mu.Unlock()
		return nil, errNotAgreed
	}
	next, err := merged(r.Region, wish.Source)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	epoch := *wish.Source.GetRegionEpoch()
	epoch.Version++
	gone := map[uint64]*metapb.RegionEpoch{wish.Source.GetId(): &epoch}
	if err := s.propose(ctx, r, []*metapb.Region{next}, gone); err != nil {
		return nil, err
	}
	s.save()
	return &struct{}{}, nil
}
