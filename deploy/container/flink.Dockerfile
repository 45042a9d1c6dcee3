# Two images for a Flink cluster, on top of that of Dockerfile. CI runs the command below; it does not
# build the images.
#
#   make flink-job-server
#   docker build --target submit --tag recordmill-submit:0.1.0 --file deploy/container/flink.Dockerfile build
#   docker build --target flink --tag recordmill-flink:0.1.0 --file deploy/container/flink.Dockerfile build
#
# submit: recordmill with Beam's job server, for worker pools and for the commands that submit jobs.
# flink: Flink with the library of this job server. Tags name releases; look up and give their digests.
ARG RECORDMILL=recordmill:0.1.0
ARG FLINK=flink:1.19.3-scala_2.12-java17

FROM ${RECORDMILL} AS submit
COPY flink-job-server.jar /opt/recordmill/flink-job-server.jar
RUN recordmill flink-library --flink-job-server-jar /opt/recordmill/flink-job-server.jar --output /home/recordmill/lib

FROM ${FLINK} AS flink
COPY --from=submit /home/recordmill/lib/ /opt/flink/lib/
