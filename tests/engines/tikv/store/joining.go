package main

import (
	"context"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// join makes the store known to PD, and the cluster with it where it is the first.
func (s *store) join(ctx context.Context) error {
	// Who has been found to lead has said which cluster this is.
	_, err := insist(ctx, s.pd, pdpb.PDClient.GetMembers, &pdpb.GetMembersRequest{})
	if err != nil {
		return err
	}
	if s.kept.Store == 0 {
		id, err := s.allocate(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.kept.Store = id
		s.mu.Unlock()
	}
	if err := s.bootstrap(ctx); err != nil {
		return err
	}
	s.save()
	s.log.write("INFO", "put store to PD", "store_id", s.kept.Store)
	wish := &pdpb.PutStoreRequest{Header: s.pd.header(), Store: s.itself()}
	_, err = insist(ctx, s.pd, pdpb.PDClient.PutStore, wish)
	if err != nil {
		s.log.write("FATAL", "failed to put store", "err", err)
	}
	return err
}

func (s *store) itself() *metapb.Store {
	found := &metapb.Store{
		Id:             s.kept.Store,
		Address:        s.advertiseAddr,
		StatusAddress:  s.advertiseStatusAddr,
		Version:        s.version,
		GitHash:        "0000000000000000000000000000000000000000",
		StartTimestamp: s.started.Unix(),
		DeployPath:     s.dataDir,
	}
	for key, value := range s.labels {
		found.Labels = append(found.Labels, &metapb.StoreLabel{Key: key, Value: value})
	}
	return found
}

func (s *store) allocate(ctx context.Context) (uint64, error) {
	wish := &pdpb.AllocIDRequest{Header: s.pd.header()}
	found, err := insist(ctx, s.pd, pdpb.PDClient.AllocID, wish)
	return found.GetId(), err
}

func (s *store) bootstrap(ctx context.Context) error {
	header := s.pd.header()
	wish := &pdpb.IsBootstrappedRequest{Header: header}
	asked, err := insist(ctx, s.pd, pdpb.PDClient.IsBootstrapped, wish)
	if err != nil || asked.GetBootstrapped() {
		return err
	}
	regionID, err := s.allocate(ctx)
	if err != nil {
		return err
	}
	peerID, err := s.allocate(ctx)
	if err != nil {
		return err
	}
	region := &metapb.Region{
		Id:          regionID,
		RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1},
		Peers:       []*metapb.Peer{{Id: peerID, StoreId: s.kept.Store}},
	}
	_, err = insist(ctx, s.pd, pdpb.PDClient.Bootstrap,
		&pdpb.BootstrapRequest{Header: header, Store: s.itself(), Region: region})
	var no refusal
	if errors.As(err, &no) && no.why.GetType() == pdpb.ErrorType_ALREADY_BOOTSTRAPPED {
		return nil
	}
	if err != nil {
		return err
	}
	s.log.write("INFO", "bootstrap cluster ok", "cluster_id", s.pd.header().GetClusterId())
	s.mu.Lock()
	defer s.mu.Unlock()
	first := newReplica(region)
	s.kept.Regions[regionID] = first
	s.leads(first, time.Now())
	return nil
}
